//! A loop of one's own: minimal residuals with one vector of memory, compiled like any other.

use kernelwright::solve::Inputs;

kernelwright::operator! {
    /// Convection and diffusion in a plate: not symmetric.
    drift {
        grid nodes [i: nx, j: ny];
        param speed;
        apply u => 4*u - (1 + speed)*u[i-1] - (1 - speed)*u[i+1] - u[j-1] - u[j+1];
        boundary i, j: dirichlet(0);
    }
}

kernelwright::solver! {
    /// Each step minimises the residual along itself.
    minimal_residual(A: any) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        repeat {
            q = A*r;
            gain = dot(q, r);
            square = dot(q, q);
            require square > 0 else breakdown;
            u = u + (gain/square)*r;
            r = r - (gain/square)*q;
            check;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut solver = drift::system(drift::Sizes { nx: 40, ny: 40 }, drift::Parameters { speed: 0.3 })
        .own_solver(&minimal_residual::PROGRAM)
        .tolerance(1e-6)
        .iterations(20_000)
        .compile()?;
    let f = vec![1.0; solver.len()];
    for speed in [0.0, 0.3, 0.6] {
        let report = solver.solve(&Inputs::new().param("speed", speed).rhs(&f))?.report;
        println!("speed {speed}: {} after {} iterations", report.outcome.name(), report.iterations);
    }
    Ok(())
}
