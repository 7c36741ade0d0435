//! Published crates run in kernels, unchanged.

use cuda_std::launch::LaunchConfig;
use cuda_std_tests::{done, download, poisoned, upload};
use published_kernels::{MOST, UNSEEN_BITS, frequencies, sha256, sha512, sort, sort_stably};

cuda_std_tests::device!("published");

/// Byte `i` of the message of `n` bytes is `(7 i + n) mod 251`.
fn message(n: usize) -> Vec<u8> {
    (0..n).map(|i| ((7 * i + n) % 251) as u8).collect()
}

/// SHA-256 of the messages of these lengths, as Python's `hashlib` (OpenSSL) computes it.
const SHA256: &[(usize, &str)] = &[
    (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    (1, "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"),
    (55, "d604dc83c754bb5890ec011f3fa0552324cb1412205b5a5e83fd17cd4afe57ed"),
    (56, "0371e3fd4911ce4109ac9aaddc0ebdfe28431802ef70a966cb245da585f2a37e"),
    (63, "de8f546e5d44d4fb35d25af2748ed9b6644d200d56b6b0b6e71b095b44348dc6"),
    (64, "35eb8c80b4af970a05040dd151d5edad6172957c1ded27e521fdcf526178feb3"),
    (65, "c96988663bcd3779da5b1c0e499742ff48bf6148d5c044326ce3e5845a80e6ab"),
    (111, "dc842a996e8510ece743d33b46a3201593fe91e90f2140785ca4895c440369c1"),
    (112, "9f25c2a5d109560e264ac700a9561d55244fc68e70ead8c55ddbde57f167e61e"),
    (128, "086e64af3be4bef59202dea267776bbbbe6264ad9ff0b46345743fffc446238e"),
    (200, "2d64ae24c18406f690d51ff1ac9413d823891bf17062693f70eb953108e79178"),
];

/// SHA-512, likewise.
const SHA512: &[(usize, &str)] = &[
    (
        0,
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
    ),
    (
        1,
        "7b54b66836c1fbdd13d2441d9e1434dc62ca677fb68f5fe66a464baadecdbd00576f8d6b5ac3bcc80844b7d50b1cc6603444bbe7cfcf8fc0aa1ee3c636d9e339",
    ),
    (
        55,
        "df3185830724d08f9e09b9fdf9d3d10a9e87dd98eb54c43609eaaacdfe51c7d999beeb21d24bd98a65788b11e2e53ce50688b24a04931649040103b3d2dc3f67",
    ),
    (
        56,
        "d0f1aed94332efa5639957d97d9a8e322180779a58d64f00c0127f72c6bf7913c7d41194e17313c20dab21e85c0f67dbe80db84099f97ec690e2136484d21a05",
    ),
    (
        63,
        "5b77430c315188a0972b7c7f4bb062a59a561e727f12ee034701a50432009076ce223dd8e22bd23e293598b368c42776f33b116d877e4ee123d25d3fee181fec",
    ),
    (
        64,
        "61fe5b07f18f84c99cdc1c47a35b06e5832d7b1bf3849b70574314a6ec7964b139f5cc364df1aedc57a6da4ede88e5e4ffc56e57e07dab51e93704b558d73ce5",
    ),
    (
        65,
        "d8f076835f32073a6b30a53fa77391ed3a1777a7329f460330180727521a88878c2504589bf9391ce45d5fe2f1599a24397170ba99c679b28c33c30f3de61f7d",
    ),
    (
        111,
        "a1954c0d7783ec96f5c6c98500f3b1c77e759f19858e57744a8f20f80d16eb6ac08033eb24932e2f17bddcc9eeaff9054dd5c37674aa1334f798fc5fb153581d",
    ),
    (
        112,
        "8b86de42105c9f404d924fd0d6586c05d41a5819fa94d464719c35f8bacad9765f1d27ec066534dfead6c82fadf2ffb6fb291b5b6330dec050fc7238cce92a1d",
    ),
    (
        128,
        "75c0103fe76fbddfe44f5ddbfd09beedb619570de00e1b1ee43ef688986e89fcc408b32bd4543c6b08287c88c2b543a81cede0f85b37cd1527f0d74977d28142",
    ),
    (
        200,
        "24b7a6ae29ab737513fb6b07cff37fc4bb456b0970929bbe46b3e73080dbb2281772b2a967c7daf8ad0abb8b831b3187256e2fa3e8aeacf8b4f977c52e8537f4",
    ),
];

/// The messages one after another, and where each ends.
fn joined(messages: &[Vec<u8>]) -> (Vec<u8>, Vec<u32>) {
    let ends = messages.iter().scan(0, |end, message| {
        *end += message.len() as u32;
        Some(*end)
    });
    (messages.concat(), ends.collect())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sha256_gives_known_digests() {
    let mut messages: Vec<_> = SHA256.iter().map(|(n, _)| message(*n)).collect();
    messages.push(b"abc".to_vec());
    let (bytes, ends) = joined(&messages);
    let (bytes, ends) = (upload(gpu(), &bytes), upload(gpu(), &ends));
    let mut digests = poisoned::<[u8; 32]>(gpu(), messages.len());
    let config = LaunchConfig::for_num_elems(messages.len());
    done(sha256::launch(gpu(), config, &bytes, &ends, &mut digests));
    let found: Vec<_> = download(&digests).iter().map(|digest| hex(digest)).collect();
    // The last is the example of FIPS 180-4.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let expected: Vec<_> = SHA256.iter().map(|(_, hex)| *hex).chain([abc]).collect();
    assert_eq!(found, expected);
}

#[test]
fn sha512_takes_pieces() {
    let messages: Vec<_> = SHA512.iter().map(|(n, _)| message(*n)).collect();
    let (bytes, ends) = joined(&messages);
    let (bytes, ends) = (upload(gpu(), &bytes), upload(gpu(), &ends));
    let mut digests = poisoned::<[u8; 64]>(gpu(), messages.len());
    let config = LaunchConfig::for_num_elems(messages.len());
    done(sha512::launch(gpu(), config, &bytes, &ends, &mut digests));
    let found: Vec<_> = download(&digests).iter().map(|digest| hex(digest)).collect();
    assert_eq!(found, SHA512.iter().map(|(_, hex)| *hex).collect::<Vec<_>>());
}

#[test]
fn a_hash_map_counts() {
    let texts = ["", "a", "abracadabra", "the quick brown fox jumps over the lazy dog", "zzyyxx"];
    let mut messages: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    messages.push(message(600));
    let (bytes, ends) = joined(&messages);
    let (bytes, ends) = (upload(gpu(), &bytes), upload(gpu(), &ends));
    let mut out = poisoned::<[u32; 3]>(gpu(), messages.len());
    let config = LaunchConfig::for_num_elems(messages.len());
    done(frequencies::launch(gpu(), config, &bytes, &ends, &mut out));
    let expected = messages.iter().map(|message| {
        let count = |byte: u8| message.iter().filter(|other| **other == byte).count() as u32;
        let different = (0..=255).filter(|byte| count(*byte) > 0).count() as u32;
        let most = (0..=255).map(count).max().unwrap_or(0);
        let first = (0..=255).find(|byte| count(*byte) == most).filter(|_| most > 0);
        [different, u32::from(first.unwrap_or(0)), most]
    });
    assert_eq!(download(&out), expected.collect::<Vec<_>>());
}

/// Rows of `MOST` numbers whose upper bits have `keys` values and whose lower bits count: sorted by the
/// upper bits with equal ones in their order, they are sorted as numbers.
fn rows(lens: &[u32], keys: u32) -> Vec<u32> {
    let mut state = keys;
    let number = |i: usize, state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (((*state >> 8) % keys) << UNSEEN_BITS) | i as u32
    };
    let mut rows = Vec::new();
    for (row, _) in lens.iter().enumerate() {
        let mut own: Vec<u32> = (0..MOST).map(|i| number(i, &mut state)).collect();
        match row % 4 {
            1 => own.sort_unstable(),
            2 => own.sort_unstable_by_key(|number| (!(number >> UNSEEN_BITS), *number)),
            _ => {}
        }
        rows.extend(own);
    }
    rows
}

/// What the host makes of the rows.
fn sorted(lens: &[u32], rows: &[u32], key: impl Fn(&u32) -> u32) -> Vec<u32> {
    let mut sorted = rows.to_vec();
    for (row, len) in sorted.chunks_mut(MOST).zip(lens) {
        row[..*len as usize].sort_by_key(&key);
    }
    sorted
}

/// Every length on a GPU; on the emulator every small one, and those around powers of two.
fn lens() -> Vec<u32> {
    if cuda_std_tests::on_gpu() {
        return (0..=MOST as u32).collect();
    }
    let around = |center: u32| center - 1..=center + 1;
    let large = [128, 256, 512, 1024].into_iter().flat_map(around);
    (0..=100).chain(large).chain([333, 777, 1500, 1999, MOST as u32]).collect()
}

/// The lengths in parts whose threads' copies fit into the device's heap of 8 MiB together.
fn parts() -> Vec<Vec<u32>> {
    lens().chunks(128).map(<[u32]>::to_vec).collect()
}

#[test]
fn a_vector_is_sorted() {
    for (lens, keys) in parts().iter().flat_map(|lens| [3, 40, 1 << 20].map(|keys| (lens, keys))) {
        let rows = rows(lens, keys);
        let mut out = upload(gpu(), &rows);
        let config = LaunchConfig::for_num_elems(lens.len());
        done(sort::launch(gpu(), config, &upload(gpu(), lens), &mut out));
        assert!(download(&out) == sorted(lens, &rows, |number| *number), "{keys} keys");
    }
}

#[test]
fn equal_numbers_keep_their_order() {
    let keys = [1, 3, 40, 1 << 20];
    for (lens, keys) in parts().iter().flat_map(|lens| keys.map(|keys| (lens, keys))) {
        let rows = rows(lens, keys);
        let mut out = upload(gpu(), &rows);
        let config = LaunchConfig::for_num_elems(lens.len());
        done(sort_stably::launch(gpu(), config, &upload(gpu(), lens), &mut out));
        let expected = sorted(lens, &rows, |number| number >> UNSEEN_BITS);
        assert!(download(&out) == expected, "{keys} keys");
    }
}

/// The sort's buffers take more than the driver's 1 KiB, and it calls itself, so the driver cannot know.
#[test]
fn a_module_that_recurses_raises_the_stack() {
    use cust::context::{CurrentContext, ResourceLimit};
    let limit = || CurrentContext::get_resource_limit(ResourceLimit::StackSize).expect("a limit");
    done(gpu().load_kernels().map(|_| ()));
    // Makes the device's context this thread's current one.
    done(gpu().synchronize());
    let raised = limit();
    assert!((12 << 10..64 << 10).contains(&raised), "{raised} bytes");
    done(gpu().raise_stack_limit(raised / 2));
    assert_eq!(limit(), raised);
    done(gpu().raise_stack_limit(raised + 1024));
    assert!(limit() >= raised + 1024);
}
