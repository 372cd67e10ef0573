#!/bin/sh
# Measures the tuner on a card in about 200 seconds and prints tables: default against tuned, two cold tunes against each
# other, matrices and element kernels, guided against exhaustive.
# Usage: tune.sh KERNELWRIGHT PROGRAMS OUT [BACKEND]
#   KERNELWRIGHT  the command, built with --release
#   PROGRAMS      folder with pressure_correction.kw
#   OUT           folder for logs, stores and the kernel cache: below it, tune is made anew
#   BACKEND       cuda; or host, at smaller sizes, in about 400 seconds
set -u
command=$1 program=$2/pressure_correction.kw out=$3/tune backend=${4-cuda}
rm -rf "$out"
mkdir -p "$out"
export KERNELWRIGHT_CACHE="$out/cache"
if [ "$backend" = cuda ]; then
    small="256 256 128" large="1024 1024 128" budget=12s long=30s short=8s scale=0.1
else
    small="128 128 64" large="256 256 128" budget=30s long=60s short=15s scale=0.01
fi

# How long a tune took, the two lines of its final and what it chose.
tune() {
    name=$1
    shift
    "$command" tune "$@" --backend "$backend" > "$out/$name.txt" 2> "$out/$name.log" || {
        echo "  failed: $out/$name.log"
        tail -3 "$out/$name.log"
    }
    sed -n '2p' "$out/$name.txt"
    grep -E '^  (default|best) ' "$out/$name.txt" | tail -2
    sed -n '/^$/,$p' "$out/$name.txt" | grep -E '^  (schedule|format|kernels)' | tail -1
}

# Seconds of an iteration.
iteration() {
    "$command" bench "$program" --backend "$backend" --runs 3 --json "$@" 2>> "$out/bench.log" |
        grep -m1 '"seconds_per_iteration"' | tr -d ' ,' | cut -d: -f2
}

for precision in f32 f64; do
    set -- $small
    sizes="--set nx=$1 --set ny=$2 --set nz=$3 --precision $precision"
    echo "== pressure correction $1 x $2 x $3 $precision, two tunes with stores of their own"
    for run in 1 2; do
        KERNELWRIGHT_TUNED="$out/tuned.$run" tune "pcg.$precision.$run" "$program" $sizes --budget $budget
    done
    # The choices raced: in turns, least of two.
    for turn in 1 2; do
        for run in 1 2; do
            KERNELWRIGHT_TUNED="$out/tuned.$run" iteration $sizes >> "$out/race.$precision.$run"
        done
        iteration $sizes --untuned >> "$out/race.$precision.default"
    done
    for who in default 1 2; do
        echo "  raced $who: $(sort -g "$out/race.$precision.$who" | head -1) s an iteration"
    done
done

set -- $large
echo "== pressure correction $1 x $2 x $3 f32, --budget $long"
KERNELWRIGHT_TUNED="$out/tuned.1" tune pcg.large "$program" --set nx=$1 --set ny=$2 --set nz=$3 --precision f32 --budget $long

export KERNELWRIGHT_TUNED="$out/tuned.1"
for kind in poisson7 samg-like powerlaw; do
    echo "== product $kind at $scale of its size, f32"
    tune "spmv.$kind" --kind $kind --scale $scale --precision f32 --budget $short
done

echo "== element kernels of Maxwell's equations, order 3, f32"
tune dg dg --set N=3 --set n=8 --precision f32 --budget $budget

echo "== guided against exhaustive: samg-like in csr"
export KERNELWRIGHT_TUNED="$out/tuned.guided"
tune guided --kind samg-like --scale $scale --precision f32 --format csr --budget 20s
export KERNELWRIGHT_TUNED="$out/tuned.exhaustive"
tune exhaustive --kind samg-like --scale $scale --precision f32 --format csr --exhaustive --budget 40s
