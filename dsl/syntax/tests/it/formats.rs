//! Formats: what a declaration means, and the library of them.

use kernelwright_syntax::program::{Base, Coding, Format, Height, Level, Order, Origin, Padding};
use kernelwright_syntax::{compile, library};

fn format(statements: &str) -> Format {
    let text = format!("format f {{ {statements} }}");
    compile("f.kw", &text).unwrap_or_else(|errors| panic!("{errors}")).formats.remove(0)
}

#[test]
fn every_format_of_the_library_checks() {
    for name in library::format_names() {
        let format = library::format(name).unwrap_or_else(|| panic!("{name} does not check"));
        assert_eq!(format.name, name);
        assert!(!format.doc.is_empty(), "{name} says nothing about itself");
    }
    assert!(library::format("cg").is_none());
}

#[test]
fn what_is_left_out_has_its_default() {
    let csr = format("store row, slot; index u32;");
    assert_eq!((csr.order, csr.height, csr.padding), (Order::Given, Height::Rows(1), Padding::None));
    assert_eq!((csr.lengths, csr.coding), (false, Coding::U32));
    assert_eq!(csr.nest, [Level::Row, Level::Slot]);
}

#[test]
fn every_part_is_read() {
    let text = "rows sort(length, descending, window = 8*64).chunk(8).pad(matrix); store lane, slot, chunk;
                lengths kept; index delta(u16, base = (chunk, slot), escape);";
    let odd = format(text);
    assert_eq!(odd.order, Order::Sorted { window: Some(512) });
    assert_eq!((odd.height, odd.padding, odd.lengths), (Height::Rows(8), Padding::Matrix, true));
    assert_eq!(odd.nest, [Level::Lane, Level::Slot, Level::Chunk]);
    assert_eq!(odd.coding, Coding::Delta { base: Base::ChunkSlot, origin: Origin::Zero, escape: true });
    let whole = format("rows sort(length, descending).chunk(all).pad(longest); store slot, lane; index u64;");
    assert_eq!((whole.order, whole.height), (Order::Sorted { window: None }, Height::All));
    assert_eq!((whole.padding, whole.coding), (Padding::Chunk, Coding::U64));
    let text = "rows given.chunk(16).pad(aligned); store chunk, slot, lane; index delta(u16, base = chunk, from = ";
    for (word, origin) in [("row", Origin::Row), ("first", Origin::First)] {
        let aligned = format(&format!("{text}{word});"));
        assert_eq!((aligned.order, aligned.padding), (Order::Given, Padding::Aligned));
        assert_eq!(aligned.coding, Coding::Delta { base: Base::Chunk, origin, escape: false });
    }
}

#[test]
fn a_program_finds_its_own_formats_first() {
    let text = "format csr { store row, slot; index u64; } format mine { store entry; index u32; }";
    let program = compile("own.kw", text).unwrap();
    assert_eq!(program.format("csr").map(|format| format.coding), Some(Coding::U64));
    assert_eq!(program.format("mine").map(|format| format.nest), Some(vec![Level::Entry]));
    assert_eq!(program.format("pjds"), library::format("pjds"));
    assert_eq!(program.format("nobody"), None);
    let names = program.format_names();
    assert_eq!(names.len(), library::format_names().count() + 1);
    assert_eq!(names[..2], ["csr", "mine"]);
}
