//! What the warps of a warpgroup wait for.

use super::common::{Buffer, HEAD, device, launch};
use emulator::TrapKind;
use emulator::fault::WaitsOn;

/// A kernel of 128 threads, `%w` the number of the warp.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 out)\n{{\n\
         .shared .align 16 .b8 flag[16];\n.reg .b32 %t, %w, %i, %s, %r;\n.reg .b64 %out;\n.reg .pred %p;\n\
         ld.param.u64 %out, [out];\nmov.u32 %s, flag;\nmov.u32 %t, %tid.x;\nshr.u32 %w, %t, 5;\n\
         setp.eq.u32 %p, %t, 0;\n@%p st.shared.u32 [%s], 0;\nbar.sync 0;\n\
         setp.eq.u32 %p, %w, 3;\n{body}\nret;\n}}\n"
    )
}

const COMMIT: &str = "wgmma.fence.sync.aligned;\nwgmma.commit_group.sync.aligned;\n";

/// The last warp comes late, after a loop of many turns, and says so before it commits: those that wait for its group see it.
#[test]
fn a_wait_is_for_the_groups_of_all_four_warps() {
    let late = "@!%p bra COMMIT;\nmov.u32 %i, 0;\nTURN:\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 50000;\n@%p bra TURN;\n\
         st.relaxed.cta.shared.u32 [%s], 7;\nCOMMIT:\n";
    let found = "wgmma.wait_group.sync.aligned 0;\nld.relaxed.cta.shared.u32 %r, [%s];\n\
         mad.wide.u32 %out, %t, 4, %out;\nst.global.u32 [%out], %r;";
    let device = device();
    let out = Buffer::new(&device, 128 * 4);
    let text = kernel(&[late, COMMIT, found].concat());
    launch(&device, &text, "k", [1; 3], [128, 1, 1], &[out.address]).unwrap();
    assert_eq!(out.u32s(), [7; 128]);
    // A wait that leaves a group is for those before it alone.
    let left = found.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1");
    let text = kernel(&[late, COMMIT, &left].concat());
    launch(&device, &text, "k", [1; 3], [128, 1, 1], &[out.address]).unwrap();
    assert_eq!((out.u32s()[0], out.u32s()[127]), (0, 7));
}

/// On a GPU a product that one warp of four does not execute never ends, or is wrong.
#[test]
fn a_warp_that_leaves_out_a_product_is_told() {
    let device = device();
    let out = Buffer::new(&device, 4);
    let text =
        kernel(&["@%p bra END;\n", COMMIT, "wgmma.wait_group.sync.aligned 0;\nEND:"].concat());
    let trap = launch(&device, &text, "k", [1; 3], [128, 1, 1], &[out.address]).unwrap_err();
    match &trap.kind {
        TrapKind::Deadlock { waiting } => {
            assert_eq!((waiting.len(), waiting[0].on), (96, WaitsOn::Warpgroup));
        }
        other => panic!("{other:?}"),
    }
    let line = "wait for the other warps of the warpgroup, which have to execute the same `wgmma`";
    assert!(trap.to_string().contains(line), "{trap}");
}
