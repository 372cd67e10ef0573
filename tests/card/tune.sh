#!/bin/sh
# Measures the tuner on a card: default against tuned, guided against exhaustive, wall time, two tunes against each
# other. Usage: tune.sh KERNELWRIGHT PROGRAMS OUT [exhaustive]
#   KERNELWRIGHT  the command, built with --release
#   PROGRAMS      folder with pressure_correction.kw
#   OUT           folder for results (JSON, SVG, logs); the store and the kernel cache lie there too
set -u
command=$1 programs=$2 out=$3 exhaustive=${4-}
mkdir -p "$out"
program=$programs/pressure_correction.kw
for size in "256 256 128" "1024 1024 128"; do
    set -- $size
    for precision in f32 f64; do
        name=$1x$3.$precision
        sizes="--set nx=$1 --set ny=$2 --set nz=$3 --precision $precision --backend cuda"
        echo "== $name"
        for run in 1 2; do
            # Two cold tunes, each with a store of its own: their choices should be within 2 % of each other.
            export KERNELWRIGHT_CACHE="$out/cache" KERNELWRIGHT_TUNED="$out/tuned.$run"
            begin=$(date +%s.%N)
            "$command" tune "$program" $sizes --budget 60s --plot "$out/$name.$run.svg" --json \
                > "$out/$name.$run.json" 2> "$out/$name.$run.log" || echo "tune failed: $out/$name.$run.log"
            echo "tune $run: $(echo "$(date +%s.%N) - $begin" | bc) s"
            "$command" bench "$program" $sizes --runs 10 --json > "$out/$name.$run.bench.json" 2>> "$out/$name.$run.log"
        done
        "$command" bench "$program" $sizes --runs 10 --untuned --json > "$out/$name.untuned.bench.json"
        if [ -n "$exhaustive" ]; then
            export KERNELWRIGHT_TUNED="$out/tuned.exhaustive"
            timeout 540 "$command" tune "$program" $sizes --exhaustive --budget 500s --json \
                > "$out/$name.exhaustive.json" 2> "$out/$name.exhaustive.log"
        fi
        for result in "$out/$name".*.json; do
            echo "$(basename "$result"): $(grep -m1 -E '"(gain|median_seconds)"' "$result")"
        done
    done
done
