//! Solution of the systems along lines.
