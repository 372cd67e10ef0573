//! .npy files: what is written is read back, and hostile headers are errors with a reason.

use kernelwright::inputs::npy::{Array, Float, read, write};

/// A file with this header text and these bytes behind it.
fn file(version: u8, header: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY".to_vec();
    out.extend([version, 0]);
    match version {
        1 => out.extend((header.len() as u16).to_le_bytes()),
        _ => out.extend((header.len() as u32).to_le_bytes()),
    }
    out.extend(header.as_bytes());
    out.extend(bytes);
    out
}

fn header(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}          \n")
}

#[track_caller]
fn check(bytes: &[u8], shape: &[usize], values: &[f64]) {
    let array = read(bytes).expect("a good file");
    assert_eq!(array, Array { shape: shape.to_vec(), values: values.to_vec() });
}

#[track_caller]
fn refuse(bytes: &[u8], reason: &str) {
    let error = read(bytes).expect_err("a bad file").to_string();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn round_trip() {
    for shape in [vec![], vec![0], vec![7], vec![2, 3], vec![4, 1, 5], vec![2, 2, 2, 2]] {
        let count: usize = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|n| n as f64 / 8.0 - 1.0).collect();
        for float in [Float::F32, Float::F64] {
            let mut bytes = Vec::new();
            write(&mut bytes, &shape, &values, float).expect("memory takes it");
            let width = if float == Float::F32 { 4 } else { 8 };
            assert_eq!((bytes.len() - count * width) % 64, 0, "elements are aligned");
            check(&bytes, &shape, &values);
        }
    }
}

#[test]
fn every_type_and_byte_order() {
    let little = |descr: &str, bytes: &[u8]| file(1, &header(descr, "False", "(2,)"), bytes);
    check(&little("<i2", &[1, 0, 0xff, 0xff]), &[2], &[1.0, -1.0]);
    check(&little(">i2", &[0, 1, 0xff, 0xfe]), &[2], &[1.0, -2.0]);
    check(&little("|u1", &[0, 255]), &[2], &[0.0, 255.0]);
    check(&little("|b1", &[0, 1]), &[2], &[0.0, 1.0]);
    check(&little(">u4", &[0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff]), &[2], &[256.0, 4294967295.0]);
    check(&little("<f2", &[0, 0x3c, 1, 0x80]), &[2], &[1.0, -(2f64.powi(-24))]);
    let big: Vec<u8> = [1.5f64, -0.25].iter().flat_map(|v| v.to_be_bytes()).collect();
    check(&little(">f8", &big), &[2], &[1.5, -0.25]);
    let single: Vec<u8> = [1.5f32, -0.25].iter().flat_map(|v| v.to_le_bytes()).collect();
    check(&little("<f4", &single), &[2], &[1.5, -0.25]);
    let long: Vec<u8> = [-3i64, 9].iter().flat_map(|v| v.to_le_bytes()).collect();
    check(&little("<i8", &long), &[2], &[-3.0, 9.0]);
}

#[test]
fn fortran_order_is_brought_to_c_order() {
    let bytes = file(1, &header("|u1", "True", "(2, 3)"), &[1, 2, 3, 4, 5, 6]);
    check(&bytes, &[2, 3], &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
}

#[test]
fn versions_two_and_three_and_unusual_but_legal_headers() {
    for version in [2, 3] {
        check(&file(version, &header("|u1", "False", "(1,)"), &[9]), &[1], &[9.0]);
    }
    let reordered = "{\"shape\": (2L, ), \"fortran_order\": False, \"descr\": \"|u1\"}";
    check(&file(1, reordered, &[1, 2]), &[2], &[1.0, 2.0]);
    check(&file(1, &header("|u1", "False", "()"), &[4]), &[], &[4.0]);
}

#[test]
fn hostile_files() {
    let with = |descr: &str, fortran: &str, shape: &str| file(1, &header(descr, fortran, shape), &[0; 16]);
    refuse(b"", "too short");
    refuse(b"PK\x03\x04 a zip file", "magic string");
    refuse(&file(1, &header("<f8", "False", "(1,)"), &[0; 16])[..40], "cut off");
    refuse(&file(9, &header("<f8", "False", "(1,)"), &[]), "version 9");
    refuse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "not believable");
    refuse(&with("<f8", "False", "(3,)"), "promises 24 bytes");
    refuse(&with("<f8", "False", "(4294967296, 4294967296, 2)"), "too large");
    refuse(&with("<f8", "False", "(2305843009213693952,)"), "too large");
    refuse(&with("<f8", "False", "(1000000000000000,)"), "promises");
    refuse(&with("<c16", "False", "(1,)"), "`<c16`");
    refuse(&with("|O", "False", "(1,)"), "`|O`");
    refuse(&with("<f3", "False", "(1,)"), "`<f3`");
    refuse(&with("<f16", "False", "(1,)"), "`<f16`");
    refuse(&with("", "False", "(1,)"), "``");
    refuse(&with("é8", "False", "(1,)"), "not supported");
    refuse(&with("<f8", "Perhaps", "(1,)"), "neither True nor False");
    refuse(&with("<f8", "False", "(-1,)"), "non-negative");
    refuse(&with("<f8", "False", "(1"), "not a tuple");
    refuse(&with("<f8", "False", "2"), "lacks");
    refuse(&file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", &[0; 4]), "records");
    refuse(&file(1, "{'descr': '<f8', 'shape': (1,)}", &[0; 8]), "no `fortran_order`");
    refuse(&file(1, "{'descr': '<f8', 'shape': (1,), 'x': 1}", &[0; 8]), "unknown key `x`");
    refuse(&file(1, "{'descr", &[0; 8]), "does not end");
    refuse(&file(1, "[]", &[0; 8]), "lacks a `{`");
    refuse(&file(1, "{} trailing", &[0; 8]), "goes on");
    let mut latin = file(1, &header("<f8", "False", "(1,)"), &[0; 8]);
    latin[12] = 0xe9;
    refuse(&latin, "not text");
}

#[test]
fn no_prefix_or_flipped_byte_panics() {
    let mut good = Vec::new();
    write(&mut good, &[3, 2], &[0.0; 6], Float::F64).expect("memory takes it");
    for end in 0..good.len() {
        assert!(read(&good[..end]).is_err());
    }
    for place in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[place] ^= 1 << bit;
            let _ = read(&bytes[..]);
        }
    }
}
