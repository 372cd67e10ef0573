//! The commands `info` and `convert`.

use crate::cli::{file, folder, run};

const SMALL: &str = "%%MatrixMarket matrix coordinate real symmetric
3 3 5
1 1 2
2 1 -1
2 2 2
3 2 -1
2 2 0.5
";

#[test]
fn info_for_people_and_for_programs() {
    let folder = folder("cli_matrix_info");
    let path = file(&folder, "small.mtx", SMALL);
    let [spy, histogram] = ["spy.svg", "lengths.svg"].map(|name| folder.join(name).display().to_string());
    let ran = run(&["info", &path, "--spy", &spy, "--histogram", &histogram]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    let expected = "\
small.mtx: MatrixMarket coordinate real symmetric
  size         3 x 3, 6 entries (66.67 %)
  row lengths  1 … 3, 2.00 on average, standard deviation 0.82
  bandwidth    1 below, 1 above
  magnitudes   1.000e0 … 2.500e0
  symmetry     symmetric
  diagonal     1 row without one (first: row 3); dominant in 2 of 3 rows
  note         1 entry stands at the place of another; they were added

entries in a row
          1  ██████████████████████████████████████████████████ 1
          2  ██████████████████████████████████████████████████ 1
          3  ██████████████████████████████████████████████████ 1
";
    assert_eq!(ran.out, expected);
    for svg in [spy, histogram] {
        assert!(std::fs::read_to_string(svg).expect("written").starts_with("<svg"));
    }
    let object = run(&["info", &path, "--json"]).json();
    assert_eq!((&object["statistics"]["entries"], &object["stored_entries"]), (&6.into(), &5.into()), "{object}");
    assert_eq!(object["statistics"]["diagonal"]["first_missing"], 3);
    assert_eq!((&object["duplicates"], &object["stored_symmetry"]), (&1.into(), &"symmetric".into()));
}

#[test]
fn a_wrong_file_is_named_with_line_and_reason() {
    let folder = folder("cli_matrix_wrong");
    let path = file(&folder, "wrong.mtx", &SMALL.replace("3 2 -1", "3 4 -1"));
    let ran = run(&["info", &path]);
    assert_eq!((ran.status, ran.err), (1, format!("error: {path}: line 6: column 4 of a matrix with 3 columns\n")));
    let missing = run(&["info", &folder.join("none.mtx").display().to_string(), "--json"]);
    assert_eq!((missing.status, &missing.json()["error"]["kind"]), (1, &"input".into()));
}

#[test]
fn convert_there_and_back() {
    let folder = folder("cli_matrix_convert");
    let path = file(&folder, "small.mtx", SMALL);
    let names = ["a.npz", "b.mtx", "c.mtx.gz", "d.mtx"];
    let [npz, plain, packed, last] = names.map(|name| folder.join(name).display().to_string());
    for (from, to) in [(&path, &npz), (&npz, &plain), (&path, &packed), (&packed, &last)] {
        let object = run(&["convert", from, to, "--json"]).json();
        assert_eq!(object["entries"], 6, "{object}");
    }
    let read = |path: &str| std::fs::read_to_string(path).expect("written");
    let general = "%%MatrixMarket matrix coordinate real general
3 3 6
1 1 2e0
1 2 -1e0
2 1 -1e0
2 2 2.5e0
2 3 -1e0
3 2 -1e0
";
    assert_eq!(read(&plain), general);
    let symmetric = "%%MatrixMarket matrix coordinate real symmetric
3 3 4
1 1 2e0
2 1 -1e0
2 2 2.5e0
3 2 -1e0
";
    assert_eq!(read(&last), symmetric);
}

#[test]
fn formats_that_are_not_written_are_wrong_usage() {
    let folder = folder("cli_matrix_usage");
    let path = file(&folder, "small.mtx", SMALL);
    let ran = run(&["convert", &path, "out.rse"]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("out.rse: it is none of .mtx, .mtx.gz, .npz, .hb"), "{}", ran.err);
    let ran = run(&["convert", &path, &folder.join("out.rua").display().to_string()]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("the matrix is of type RSA, not RUA; name the file .rsa or .hb"), "{}", ran.err);
    let nowhere = folder.join("none/out.mtx").display().to_string();
    assert_eq!(run(&["convert", &path, &nowhere]).status, 1);
}

#[test]
fn more_columns_than_entries_speak_for_are_refused_where_memory_follows_them() {
    let folder = folder("cli_matrix_wide");
    let wide = "%%MatrixMarket matrix coordinate real general\n1 4503599627370496 1\n1 7 3\n";
    let path = file(&folder, "wide.mtx", wide);
    let [boeing, rutherford, npz, again] =
        ["wide.hb", "wide.rb", "wide.npz", "again.mtx"].map(|name| folder.join(name).display().to_string());
    let refused: [&[&str]; 6] = [
        &["spmv", &path, "--backend", "interp"],
        &["solve", "--matrix", &path, "--backend", "interp"],
        &["explain", "--matrix", &path],
        &["bench", "spmv", "--matrix", &path, "--backend", "interp"],
        &["convert", &path, &boeing],
        &["convert", &path, &rutherford],
    ];
    for args in refused {
        let ran = run(args);
        assert_eq!(ran.status, 1, "{args:?}: {}", ran.err);
        let expected = format!("{path}: 4503599627370496 columns for so few entries (1) are refused");
        assert!(ran.err.contains(&expected), "{args:?}: {}", ran.err);
    }
    for args in [["convert", &path, &npz], ["convert", &npz, &again]] {
        let ran = run(&args);
        assert_eq!(ran.status, 0, "{args:?}: {}", ran.err);
    }
    assert!(std::fs::read_to_string(&again).expect("written").contains("\n1 4503599627370496 1\n1 7 3e0\n"));
    assert_eq!(run(&["info", &path]).status, 0);
}

#[test]
fn the_boeing_formats_there_and_back() {
    let folder = folder("cli_matrix_boeing");
    let corpus = crate::matrix_corpus::folder();
    let read = |path: &str| kernelwright::matrix::file::read(path.as_ref()).expect("a good file");
    let corpus_files =
        ["right_hand_sides.rua", "symmetric.mtx", "skew.mtx", "rectangular.rra", "many_digits.mtx", "zero_rows.mtx"];
    for name in corpus_files {
        let from = corpus.join(name).display().to_string();
        let [first, second, third] =
            ["a.hb", "b.rb", "c.hb"].map(|end| folder.join(format!("{name}.{end}")).display().to_string());
        for (from, to) in [(&from, &first), (&first, &second), (&second, &third)] {
            let ran = run(&["convert", from, to]);
            assert_eq!(ran.status, 0, "{from} to {to}: {}", ran.err);
        }
        let matrix = read(&from);
        let [a, b, c] = [&first, &second, &third].map(|path| read(path));
        for other in [&a, &b, &c] {
            assert_eq!((&other.csr, other.symmetry), (&matrix.csr, matrix.symmetry), "{name}");
        }
        assert_eq!(a.vectors, matrix.vectors, "{name}");
        let text = std::fs::read_to_string(&first).expect("written");
        assert!(text.lines().all(|line| line.len() <= 80), "{name}: lines of 80 columns");
    }
}
