//! `INSTA_UPDATE=always cargo test -p kernelwright-snapshots` accepts what is generated now.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use kernelwright_snapshots::cases::cases;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

#[test]
fn texts_are_as_they_were_and_no_file_is_left_over() {
    let cases = cases();
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(folder());
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut changed = Vec::new();
    for case in &cases {
        let mut settings = settings.clone();
        settings.set_description(case.description.clone());
        let same = || settings.bind(|| insta::assert_snapshot!(case.name.as_str(), case.text));
        // All differences at once.
        if catch_unwind(AssertUnwindSafe(same)).is_err() {
            changed.push(case.name.as_str());
        }
    }
    assert!(changed.is_empty(), "{} of {} differ: {}", changed.len(), cases.len(), changed.join(", "));

    let expected: BTreeSet<String> = cases.iter().map(|case| format!("{}.snap", case.name)).collect();
    assert_eq!(expected.len(), cases.len(), "two cases have one name");
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter(|name| !name.ends_with(".new")).collect();
    let left_over: Vec<&String> = files.difference(&expected).collect();
    assert!(left_over.is_empty(), "no case has these files any more, delete them: {left_over:?}");
}
