//! Which couplings of a row stay at the point, or on its line, and with what factor.
