kernelwright::operator! {
    heat {
        grid cells [i: n];
        let c[i+1/2] = 1 + i;
        flux X[i+1/2] = c[i]*(u[i+1] - u);
        apply u => u - div(X);
        boundary i: no_flux;
    }
}

fn main() {}
