kernelwright::operator!(file = "no/such/file.kw");

fn main() {}
