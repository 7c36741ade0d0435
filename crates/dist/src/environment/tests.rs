//! What each launcher's variables mean, and which make no sense.

use super::*;

fn parse(variables: &[(&str, &str)]) -> Result<Environment, DistError> {
    let find = |name: &str| variables.iter().find(|(own, _)| *own == name);
    Environment::parse(|name| find(name).map(|(_, value)| (*value).to_owned()), 77)
}

const TORCHRUN: [(&str, &str); 8] = [
    ("RANK", "5"),
    ("WORLD_SIZE", "8"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "4"),
    ("MASTER_ADDR", "node0"),
    ("MASTER_PORT", "29500"),
    ("TORCHELASTIC_RUN_ID", "job7"),
    ("TORCHELASTIC_RESTART_COUNT", "2"),
];

const OPEN_MPI: [(&str, &str); 5] = [
    ("OMPI_COMM_WORLD_RANK", "2"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
    ("PMIX_NAMESPACE", "123456"),
];

const SLURM: [(&str, &str); 7] = [
    ("SLURM_PROCID", "3"),
    ("SLURM_LOCALID", "1"),
    ("SLURM_NTASKS", "4"),
    ("SLURM_NNODES", "2"),
    ("SLURM_JOB_ID", "900"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_JOB_NODELIST", "gpu[03-04]"),
];

/// These variables, without some, and with others.
fn changed<'a>(
    from: &[(&'a str, &'a str)],
    without: &[&str],
    with: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let is_kept = |name: &str| !without.contains(&name) && with.iter().all(|(own, _)| *own != name);
    let kept = from.iter().copied().filter(|(name, _)| is_kept(name));
    kept.chain(with.iter().copied()).collect()
}

#[test]
fn torchrun_is_known_and_its_agents_port_is_left_alone() {
    let found = parse(&TORCHRUN).unwrap();
    assert_eq!(found.launcher, Launcher::Torchrun);
    assert_eq!((found.rank, found.size, found.local_rank, found.restarts), (5, 8, 1, 2));
    assert_eq!(found.local_size, Some(4));
    let ports = MeetingPlace::Ports { host: "node0".into(), first: 29501, count: 16 };
    assert_eq!(found.place, ports);
    assert_eq!(found.to_string(), "rank 5 of 8 (torchrun)");
    assert_eq!(found.place.to_string(), "node0, ports 29501 to 29516");
}

#[test]
fn each_restart_is_a_run_of_its_own() {
    let again = changed(&TORCHRUN, &[], &[("TORCHELASTIC_RESTART_COUNT", "3")]);
    assert_ne!(parse(&TORCHRUN).unwrap().run, parse(&again).unwrap().run);
    let own = changed(&TORCHRUN, &[], &[("FERROWARP_DIST_ID", "mine")]);
    assert_eq!(parse(&own).unwrap().run, "mine");
}

#[test]
fn ports_at_the_end_of_the_range_come_before_the_agents() {
    let last = parse(&changed(&TORCHRUN, &[], &[("MASTER_PORT", "65530")])).unwrap();
    let ports = MeetingPlace::Ports { host: "node0".into(), first: 65514, count: 16 };
    assert_eq!(last.place, ports);
}

#[test]
fn a_port_or_a_file_of_ones_own_is_taken() {
    let port = parse(&changed(&TORCHRUN, &[], &[("FERROWARP_DIST_PORT", "4000")])).unwrap();
    assert_eq!(port.place, MeetingPlace::Ports { host: "node0".into(), first: 4000, count: 1 });
    for from in [&TORCHRUN[..], &OPEN_MPI, &SLURM] {
        let file = parse(&changed(from, &[], &[("FERROWARP_DIST_FILE", "/shared/meet")])).unwrap();
        let place = MeetingPlace::File { path: "/shared/meet".into(), is_local: false };
        assert_eq!(file.place, place);
    }
}

#[test]
fn our_own_launcher_and_scripts_are_told_apart() {
    let script = changed(&TORCHRUN, &["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"], &[]);
    assert_eq!(parse(&script).unwrap().launcher, Launcher::Variables);
    let own = changed(&script, &[], &[("FERROWARP_DIST_LAUNCHER", "launch")]);
    assert_eq!(parse(&own).unwrap().launcher, Launcher::Ferrowarp);
}

#[test]
fn open_mpi_on_one_host_meets_by_a_file_and_on_several_through_mpi() {
    let one = parse(&OPEN_MPI).unwrap();
    assert_eq!(one.launcher, Launcher::OpenMpi);
    assert_eq!((one.rank, one.size, one.local_rank), (2, 4, 2));
    assert_eq!(one.run, "job/123456");
    assert!(matches!(&one.place, MeetingPlace::File { is_local: true, .. }), "{:?}", one.place);
    let several = changed(&OPEN_MPI, &[], &[("OMPI_COMM_WORLD_SIZE", "8")]);
    assert_eq!(parse(&several).unwrap().place, MeetingPlace::Mpi);
    let address = changed(&several, &[], &[("MASTER_ADDR", "node0"), ("MASTER_PORT", "6000")]);
    let ports = MeetingPlace::Ports { host: "node0".into(), first: 6001, count: 16 };
    assert_eq!(parse(&address).unwrap().place, ports);
}

#[test]
fn mpich_and_intel_mpi_are_known() {
    let variables =
        [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "2")];
    let found = parse(&variables).unwrap();
    assert_eq!(found.launcher, Launcher::Mpich);
    assert_eq!((found.rank, found.size, found.local_rank, found.local_size), (1, 2, 1, Some(2)));
    assert_eq!(found.run, "parent/77");
}

#[test]
fn slurm_meets_at_its_first_host_on_a_port_of_the_job() {
    let found = parse(&SLURM).unwrap();
    assert_eq!(found.launcher, Launcher::Slurm);
    assert_eq!((found.rank, found.size, found.local_rank, found.local_size), (3, 4, 1, None));
    let MeetingPlace::Ports { host, first, count: 16 } = found.place else { panic!("{found:?}") };
    assert_eq!(host, "gpu03");
    assert!((15_000..30_000).contains(&first), "{first}");
    let other = parse(&changed(&SLURM, &[], &[("SLURM_JOB_ID", "901")])).unwrap();
    assert!(!matches!(other.place, MeetingPlace::Ports { first: same, .. } if same == first));
}

#[test]
fn slurm_on_one_host_needs_no_list() {
    let one = changed(&SLURM, &["SLURM_JOB_NODELIST"], &[("SLURM_NNODES", "1")]);
    let found = parse(&one).unwrap();
    assert_eq!(found.local_size, Some(4));
    assert!(matches!(found.place, MeetingPlace::Ports { host, .. } if host == "127.0.0.1"));
    let none = parse(&changed(&SLURM, &["SLURM_JOB_NODELIST"], &[])).unwrap_err();
    assert!(none.to_string().contains("SLURM_JOB_NODELIST"), "{none}");
    let bad = parse(&changed(&SLURM, &[], &[("SLURM_JOB_NODELIST", "gpu[03")])).unwrap_err();
    assert!(bad.to_string().contains("gpu[03"), "{bad}");
}

#[test]
fn the_step_counts_and_not_the_job() {
    let step =
        parse(&changed(&SLURM, &[], &[("SLURM_NTASKS", "64"), ("SLURM_STEP_NUM_TASKS", "4")]));
    assert_eq!(step.unwrap().size, 4);
}

#[test]
fn a_launcher_within_another_ones_job_comes_first() {
    let torchrun = changed(&SLURM, &[], &TORCHRUN);
    assert_eq!(parse(&torchrun).unwrap().launcher, Launcher::Torchrun);
    let mpirun = changed(&SLURM, &[], &OPEN_MPI);
    assert_eq!(parse(&mpirun).unwrap().launcher, Launcher::OpenMpi);
    let pmi = changed(&SLURM, &[], &[("PMI_RANK", "3"), ("PMI_SIZE", "4"), ("PMIX_RANK", "3")]);
    assert_eq!(parse(&pmi).unwrap().launcher, Launcher::Slurm);
    // A variable of that name that has nothing to do with ranks.
    let stray = changed(&OPEN_MPI, &[], &[("RANK", "colonel")]);
    assert_eq!(parse(&stray).unwrap().launcher, Launcher::OpenMpi);
}

#[test]
fn pmix_alone_needs_the_size_from_another() {
    let pmix = [("PMIX_RANK", "1"), ("SLURM_LOCALID", "1")];
    let error = parse(&pmix).unwrap_err();
    assert!(error.to_string().contains("OMPI_COMM_WORLD_SIZE"), "{error}");
    let found = parse(&changed(&pmix, &[], &[("SLURM_NTASKS", "2")])).unwrap();
    assert_eq!((found.launcher, found.rank, found.size), (Launcher::Pmix, 1, 2));
}

#[test]
fn without_a_launcher_the_error_lists_what_was_looked_for() {
    let error = parse(&[("HOME", "/root")]).unwrap_err();
    let text = error.to_string();
    for (launcher, names) in launchers::LOOKED_FOR {
        assert!(text.contains(launcher) && text.contains(names), "{text}");
    }
    assert!(text.contains("World::alone"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_and_named() {
    for (without, with, says) in [
        (&["WORLD_SIZE"][..], &[][..], "WORLD_SIZE"),
        (&["LOCAL_RANK"], &[], "LOCAL_RANK"),
        (&["MASTER_ADDR"], &[], "MASTER_ADDR"),
        (&["MASTER_PORT"], &[], "MASTER_PORT"),
        (&[], &[("RANK", "five")], "RANK is `five`"),
        (&[], &[("RANK", "-1")], "RANK is `-1`"),
        (&[], &[("RANK", "8")], "rank 8 of 8"),
        (&[], &[("WORLD_SIZE", "0")], "0 ranks"),
        (&[], &[("LOCAL_RANK", "4")], "rank 4 of the 4"),
        (&[], &[("LOCAL_WORLD_SIZE", "9")], "9 ranks are on this host"),
        (&[], &[("MASTER_PORT", "70000")], "MASTER_PORT is `70000`"),
        (&[], &[("FERROWARP_DIST_PORT", "x")], "FERROWARP_DIST_PORT is `x`"),
    ] {
        let error = parse(&changed(&TORCHRUN, without, with)).unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}
