//! Formats to try: those of the library and some that nobody ships.

use kernelwright_syntax::program::Format;

/// Formats with unusual nests, heights and codings.
const ODD: &str = "
format odd_lane_inside { rows given.chunk(8).pad(longest); store chunk, lane, slot; index u32; }
format odd_lane_outside { rows sort(length, descending, window = 24).chunk(4).pad(longest); store lane, chunk, slot;
                          lengths kept; index u64; }
format odd_slot_lane { rows sort(length, descending).chunk(3).pad(longest); store slot, lane, chunk; index u32; }
format odd_lane_slot { rows sort(length, descending).chunk(5).pad(longest); store lane, slot, chunk; lengths kept;
                       index delta(u16, base = chunk, escape); }
format odd_jagged { rows sort(length, descending); store slot, row; index u32; }
format odd_jagged_delta { rows sort(length, descending); store slot, row; index delta(u16, base = row, escape); }
format odd_even { rows given.pad(matrix); store row, slot; lengths kept; index u64; }
format odd_even_slots { rows sort(length, descending, window = 16).chunk(16).pad(matrix); store slot, lane, chunk;
                        index delta(u16, base = (chunk, slot), escape); }
format odd_single { rows sort(length, descending).chunk(all).pad(longest); store lane, slot;
                    index delta(u16, base = row, escape); }
format odd_pjds_delta { rows sort(length, descending).chunk(16).pad(longest); store slot, chunk, lane; lengths kept;
                        index delta(u16, base = (chunk, slot), escape); }
format odd_sell_chunk { rows given.chunk(32).pad(longest); store chunk, slot, lane;
                        index delta(u16, base = chunk, escape); }
format odd_sell_row { rows given.chunk(32).pad(longest); store chunk, slot, lane; lengths kept;
                      index delta(u16, base = row, escape); }
format odd_csr_sorted { rows sort(length, descending, window = 100); store row, slot; index u64; }
format odd_dia { rows given.chunk(all).pad(aligned); store slot, lane;
                 index delta(u16, base = (chunk, slot), from = row, escape); }
format odd_aligned { rows given.chunk(8).pad(aligned); store chunk, lane, slot; index u32; }
format odd_aligned_outside { rows given.chunk(4).pad(aligned); store lane, chunk, slot;
                             index delta(u16, base = (chunk, slot), from = row, escape); }
format odd_pattern_lanes { rows sort(length, descending, window = 16).chunk(4).pad(longest); store chunk, lane, slot;
                           lengths kept; index delta(u16, base = (chunk, slot), from = first, escape); }
format odd_pattern_even { rows given.chunk(4).pad(matrix); store chunk, slot, lane;
                          index delta(u16, base = (chunk, slot), from = row, escape); }
format odd_first_slots { rows sort(length, descending).chunk(3).pad(longest); store slot, lane, chunk;
                         index delta(u16, base = chunk, from = first, escape); }
format odd_coo { rows sort(length, descending, window = 7); store entry; index u64; }
";

/// Everything.
pub fn all() -> Vec<Format> {
    let library = kernelwright_syntax::library::format_names().filter_map(kernelwright_syntax::library::format);
    let odd = kernelwright_syntax::compile("odd.kw", ODD).unwrap_or_else(|errors| panic!("{errors}")).formats;
    library.chain(odd).collect()
}

/// One of them.
pub fn named(name: &str) -> Format {
    all().into_iter().find(|format| format.name == name).unwrap()
}
