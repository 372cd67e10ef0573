fn main() {
    for n in [5000usize, 10000, 20000] {
        let lets: String = (0..n)
            .map(|i| if i == 0 { "let a0 = i;\n".to_string() } else { format!("let a{i} = a{} + 1;\n", i - 1) })
            .collect();
        let t = std::time::Instant::now();
        let text =
            format!("operator o {{ grid cells [i: nx];\n{lets} apply u => a{}*u; boundary i: periodic; }}", n - 1);
        let r = kernelwright_syntax::compile("x", &text);
        println!("lets {n} {:?} {:?}", t.elapsed(), r.is_ok());
        let t = std::time::Instant::now();
        let bad: String = (0..n).map(|i| format!("let a{i} = b{i};\n")).collect();
        let r = kernelwright_syntax::compile(
            "x",
            &format!("operator o {{ grid cells [i: nx];\n{bad} apply u => u; boundary i: periodic; }}"),
        );
        println!("bad {n} {:?} {}", t.elapsed(), r.unwrap_err().to_string().len());
        let t = std::time::Instant::now();
        let bad: String = (0..n)
            .map(|i| format!("x{i} = {};\n", if i == 0 { "1".to_string() } else { format!("x{}", i - 1) }))
            .collect();
        let r = kernelwright_syntax::compile("x", &format!("solver s(A: any) {{ residual r = f - A*u; {bad} }}"));
        println!("solver {n} {:?} {}", t.elapsed(), r.is_ok());
        let t = std::time::Instant::now();
        let bad: String = (0..n).map(|i| format!("let a{i} = ( ;\n")).collect();
        let r = kernelwright_syntax::compile("x", &format!("operator o {{ {bad} }}"));
        println!("syntax {n} {:?} {}", t.elapsed(), r.is_ok());
        let t = std::time::Instant::now();
        let bad: String = (0..n).map(|i| format!("if 1 > 0 {{ x{i} = 1; }}\n")).collect();
        let r = kernelwright_syntax::compile("x", &format!("solver s(A: any) {{ residual r = f - A*u; {bad} }}"));
        println!("ifs {n} {:?} {}", t.elapsed(), r.is_ok());
        let t = std::time::Instant::now();
        let bad: String = (0..n).map(|i| format!("solver s{i}(A: any) {{ residual r = f - A*u; check }}\n")).collect();
        let r = kernelwright_syntax::compile("x", &bad);
        println!("items {n} {:?} {}", t.elapsed(), r.is_ok());
    }
}
