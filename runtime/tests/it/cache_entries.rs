//! The kernel cache on one thread: hits, keys, damage, disks that refuse.

use kernelwright::cache::{Cache, CacheCounters, Damage, Description, Key, KeyBuilder};
use std::fs;
use std::path::{Path, PathBuf};

fn key(source: &str) -> Key {
    KeyBuilder::new("host").part("source", source).finish()
}

fn about(kernel: &str) -> Description {
    Description { backend: "host".to_owned(), kernels: vec![kernel.to_owned()], source_bytes: 9, ..Default::default() }
}

fn build(cache: &Cache, key: &Key, unit: &[u8]) -> Vec<u8> {
    cache.get_or_build::<()>(key, about("axpy"), || Ok(unit.to_vec())).unwrap()
}

fn only_file(directory: &Path) -> PathBuf {
    let files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn a_unit_is_built_once_and_survives_reopening() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("deep/inside");
    let cache = Cache::at(&directory);
    assert_eq!(build(&cache, &key("a"), b"unit"), b"unit");
    assert_eq!(build(&cache, &key("a"), b"other"), b"unit");
    assert_eq!(build(&cache, &key("b"), b"other"), b"other");
    assert_eq!(cache.counters(), CacheCounters { hits: 1, misses: 2 });
    let again = Cache::at(&directory);
    assert_eq!(build(&again, &key("a"), b"never"), b"unit");
    assert_eq!(again.counters(), CacheCounters { hits: 1, misses: 0 });
    assert_eq!(again.take_notices(), [] as [&str; 0]);
}

#[test]
fn entries_say_what_they_hold_and_go_on_request() {
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::at(place.path());
    fs::write(place.path().join("README"), "mine").unwrap();
    build(&cache, &key("a"), b"unit");
    let listed = cache.list().unwrap();
    assert_eq!(listed.len(), 1);
    let held = listed[0].state.as_ref().unwrap();
    assert_eq!((held.kernels.as_slice(), held.bytes, held.source_bytes), (&["axpy".to_owned()][..], 4, 9));
    assert!(held.created > 1_500_000_000, "{}", held.created);
    assert_eq!(cache.clear().unwrap(), 1);
    assert_eq!(cache.list().unwrap(), []);
    assert!(place.path().join("README").exists(), "only entries may be taken away");
}

#[test]
fn every_part_of_a_key_counts() {
    let of = |parts: &[(&str, &str)], options: &[&str]| {
        let empty = KeyBuilder::new("cuda").list("options", options);
        parts.iter().fold(empty, |key, (label, value)| key.part(label, value)).finish().text().to_owned()
    };
    let keys = [
        of(&[("source", "ab"), ("compiler", "c")], &["-O3"]),
        of(&[("source", "a"), ("compiler", "bc")], &["-O3"]),
        of(&[("source", "ab"), ("compiler", "d")], &["-O3"]),
        of(&[("compiler", "ab"), ("source", "c")], &["-O3"]),
        of(&[("source", "ab"), ("compiler", "c")], &["-O", "3"]),
        of(&[("source", "ab"), ("compiler", "c")], &["-O3", ""]),
        KeyBuilder::new("host").part("source", "ab").finish().text().to_owned(),
        KeyBuilder::new("cuda").part("source", "ab").finish().text().to_owned(),
    ];
    for (n, key) in keys.iter().enumerate() {
        assert!(!keys[..n].contains(key), "key {n} hides another one");
    }
    assert_eq!(keys[0], of(&[("source", "ab"), ("compiler", "c")], &["-O3"]));
}

#[test]
fn a_failed_build_leaves_nothing_and_is_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::at(place.path());
    let failed = cache.get_or_build(&key("a"), about("axpy"), || Err("refused"));
    assert_eq!(failed, Err("refused"));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    assert_eq!(build(&cache, &key("a"), b"unit"), b"unit");
}

/// Damages the entry of a unit, and checks that it is noticed, named and repaired.
#[track_caller]
fn damaged(damage: impl FnOnce(&mut Vec<u8>), expected: Damage) {
    let place = tempfile::tempdir().unwrap();
    build(&Cache::at(place.path()), &key("a"), b"unit of some length");
    let file = only_file(place.path());
    let mut content = fs::read(&file).unwrap();
    damage(&mut content);
    fs::write(&file, &content).unwrap();
    let cache = Cache::at(place.path());
    assert_eq!(cache.list().unwrap()[0].state, Err(expected.clone()));
    assert_eq!(build(&cache, &key("a"), b"built anew"), b"built anew");
    let notices = cache.take_notices();
    assert!(notices.len() == 1 && notices[0].contains(&expected.to_string()), "{notices:?}");
    assert_eq!(build(&cache, &key("a"), b"never"), b"built anew", "the entry was repaired");
    assert_eq!(cache.verify().unwrap(), []);
}

#[test]
fn damage_is_noticed_and_repaired() {
    damaged(|content| content.clear(), Damage::Incomplete);
    damaged(|content| content.truncate(10), Damage::Incomplete);
    damaged(|content| content.truncate(content.len() - 1), Damage::Checksum);
    damaged(|content| content.truncate(content.len() - 19), Damage::Checksum);
    damaged(|content| *content.last_mut().unwrap() ^= 1, Damage::Checksum);
    damaged(|content| content.push(b'x'), Damage::Checksum);
    damaged(|content| *content = content.repeat(2), Damage::Checksum);
    damaged(|content| content[0] ^= 0x20, Damage::Incomplete);
    damaged(
        |content| {
            let at = content.windows(4).position(|window| window == b"axpy").unwrap();
            content[at] = b'b';
        },
        Damage::Checksum,
    );
}

#[test]
fn an_entry_under_another_name_is_not_believed() {
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::at(place.path());
    build(&cache, &key("a"), b"unit a");
    let a = only_file(place.path());
    build(&cache, &key("b"), b"unit b");
    let b = place.path().join(format!("{}.kernel", key("b").text()));
    fs::copy(&a, &b).unwrap();
    assert_eq!(build(&cache, &key("b"), b"unit b"), b"unit b");
    fs::copy(&a, &b).unwrap();
    let gone = cache.verify().unwrap();
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0].state, Err(Damage::Misplaced));
    assert!(a.exists() && !b.exists());
}

#[test]
fn a_directory_that_cannot_be_is_no_error() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let cache = Cache::at(file.join("cache"));
    assert_eq!(build(&cache, &key("a"), b"one"), b"one");
    assert_eq!(build(&cache, &key("a"), b"two"), b"two");
    assert_eq!(build(&cache, &key("b"), b"three"), b"three");
    let notices = cache.take_notices();
    assert_eq!(notices.len(), 1, "one notice for one trouble: {notices:?}");
    assert!(notices[0].contains("cannot be written"), "{notices:?}");
    assert_eq!(cache.counters(), CacheCounters { hits: 0, misses: 3 });
    assert_eq!(cache.list().unwrap(), []);
    assert!(cache.probe().is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_where_nothing_can_be_made_is_no_error() {
    // Nothing can be made in /proc, whoever asks: a read-only disk that needs no mount and refuses root, too.
    let cache = Cache::at("/proc/kernelwright");
    assert_eq!(build(&cache, &key("a"), b"one"), b"one");
    let notices = cache.take_notices();
    assert!(notices.len() == 1 && notices[0].contains("/proc/kernelwright"), "{notices:?}");
}

#[cfg(unix)]
#[test]
fn a_read_only_directory_still_serves_what_it_has() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    build(&Cache::at(place.path()), &key("a"), b"unit");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let cache = Cache::at(place.path());
    assert_eq!(build(&cache, &key("a"), b"never"), b"unit");
    assert_eq!(build(&cache, &key("b"), b"new"), b"new");
    // Root writes everywhere; for everyone else there is a notice.
    let refused = cache.probe().is_err();
    assert_eq!(cache.take_notices().len(), usize::from(refused));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn no_cache_builds_every_time() {
    let cache = Cache::none();
    assert_eq!(build(&cache, &key("a"), b"one"), b"one");
    assert_eq!(build(&cache, &key("a"), b"two"), b"two");
    assert_eq!(cache.take_notices(), [] as [&str; 0]);
    assert_eq!((cache.list().unwrap(), cache.clear().unwrap()), (vec![], 0));
}

#[test]
fn a_cache_in_memory_builds_once_and_leaves_nothing() {
    let cache = Cache::in_memory();
    assert_eq!(build(&cache, &key("a"), b"one"), b"one");
    assert_eq!(build(&cache, &key("a"), b"two"), b"one");
    assert_eq!(build(&cache, &key("b"), b"two"), b"two");
    assert_eq!((cache.counters().hits, cache.counters().misses), (1, 2));
    assert_eq!((cache.directory(), cache.list().unwrap()), (None, vec![]));
}

#[test]
fn what_dead_processes_left_is_swept_when_it_is_old() {
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::at(place.path());
    let (old, young) = (place.path().join(".aside-old"), place.path().join(".aside-young"));
    for file in [&old, &young] {
        fs::write(file, "half an entry").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    cache.verify().unwrap();
    assert!(!old.exists() && young.exists());
}
