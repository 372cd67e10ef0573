//! Bad programs: every one is refused with exactly the text beside it. `BLESS=1` rewrites the texts.

use crate::files;
use kernelwright_syntax::compile;

const FOLDER: &str = "tests/programs/bad";

#[test]
fn bad_programs_are_refused_with_the_expected_text() {
    let bless = std::env::var_os("BLESS").is_some();
    let folder = files::root().join(FOLDER);
    let mut wrong = Vec::new();
    for (name, text) in files::all(FOLDER, "kw") {
        let found = match compile(&name, &text) {
            Ok(_) => panic!("{name} is accepted"),
            Err(errors) => errors.to_string(),
        };
        let beside = folder.join(&name).with_extension("stderr");
        if bless {
            std::fs::write(&beside, &found).unwrap();
        } else if std::fs::read_to_string(&beside).unwrap_or_default() != found {
            wrong.push(format!("{name}:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "different text (BLESS=1 rewrites it):\n{}", wrong.join("\n"));
}

#[test]
fn every_expected_text_has_its_program() {
    for (name, _) in files::all(FOLDER, "stderr") {
        let program = files::root().join(FOLDER).join(&name).with_extension("kw");
        assert!(program.exists(), "{name} stands alone");
    }
}
