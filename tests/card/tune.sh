#!/bin/sh
# Measures the tuner on a card and prints the rows of the table in docs/performance.md, what matters most first: three
# matrices; guided against exhaustive; pressure correction at two sizes and two precisions, the smaller in f32 by two tunes
# with stores of their own, whose choices race; element kernels.
# Usage: tune.sh KERNELWRIGHT PROGRAMS OUT [BACKEND]
#   KERNELWRIGHT  the command, built with --release
#   PROGRAMS      folder with pressure_correction.kw
#   OUT           folder for logs, stores and the kernel cache: below it, tune is made anew
#   BACKEND       cuda; or host, at smaller sizes and in more time
# BUDGET is the seconds of each of the two tunes that race (30; on the host 60).
# LIMIT is the seconds that all may take (230; on the host 900): what would not fit any more is left out, and said so.
# Everything that was printed is in OUT/tune/*.txt and *.log, every measurement in OUT/tune/stores: a line of JSON each.
set -u
command=$1 program=$2/pressure_correction.kw out=$3/tune backend=${4-cuda}
rm -rf "$out"
mkdir -p "$out/stores"
export KERNELWRIGHT_CACHE="$out/cache"
if [ "$backend" = cuda ]; then
    small="256 256 128" large="1024 1024 128" budget=${BUDGET-30} long=22 short=10 scale=0.1 limit=${LIMIT-230}
else
    small="128 128 64" large="256 256 128" budget=${BUDGET-60} long=90 short=15 scale=0.01 limit=${LIMIT-900}
fi
begin=$(date +%s)

# Whether something that takes so many seconds still fits.
fits() {
    [ $(($(date +%s) - begin + $2)) -le "$limit" ] && return 0
    echo "| $1 | left out: $2 s do not fit | | | | | | |"
    return 1
}

# One tune, a row: name, store, budget in seconds, arguments.
tune() {
    name=$1 store=$2 seconds=$3
    shift 3
    fits "$name" "$seconds" || return
    file="$out/$(echo "$name" | tr -c 'a-zA-Z0-9\n' _)"
    if ! KERNELWRIGHT_TUNED="$out/stores/$store" "$command" tune "$@" --backend "$backend" --budget "${seconds}s" \
        > "$file.txt" 2> "$file.log"; then
        echo "| $name | failed: $(grep -v ' of ' "$file.log" | tail -5 | tr '\n|' '  ') | | | | | | |"
        return
    fi
    took=$(sed -n '2s/.*before; \([0-9.]* s\),.*/\1/p' "$file.txt")
    candidates=$(sed -n '2s/ candidates.*//p' "$file.txt")
    looked=$(sed -n '2s/.*before; [0-9.]* s, \(.*\)/\1/p' "$file.txt")
    final=$(sed -n '/^\(Whole iterations\|Products\|Steps\)$/,$p' "$file.txt")
    # Time and gain of a line of the final, whose fraction of the copy may be missing.
    line='{ last = $NF == "%" ? NF - 2 : NF; print $(last-2), $(last-1) " | " $last; exit }'
    default=$(echo "$final" | awk "\$1 == \"default\" $line" | cut -d'|' -f1)
    best=$(echo "$final" | awk "\$1 == \"best\" $line")
    chosen=$(echo "$final" | sed -n '/^$/,$p' | sed -n 's/^  //p' | grep -v '^kept in' | tr '\n' ' ')
    echo "| $name | $seconds s | $took | $candidates | $default | $best | $chosen; $looked |"
    grep '^note: ' "$file.log" | grep -v 'tuned: ' | head -3
}

# Seconds of an iteration of the choice in a store.
race() {
    store=$1
    shift
    KERNELWRIGHT_TUNED="$out/stores/$store" "$command" bench "$program" --backend "$backend" --runs 3 --json "$@" \
        2>> "$out/bench.log" | grep -m1 '"seconds_per_iteration"' | tr -d ' ,' | cut -d: -f2
}

echo "| | budget | took | candidates | default | best | gain | chosen |"
echo "|---|---|---|---|---|---|---|---|"
for kind in samg-like poisson7 powerlaw; do
    tune "product $kind, $scale of its size, f32" products "$short" --kind $kind --scale $scale --precision f32
done
csr="--kind samg-like --scale $scale --precision f32 --format csr"
tune "product samg-like in csr, guided" guided "$short" $csr
tune "product samg-like in csr, exhaustive" exhaustive 45 $csr --exhaustive

set -- $small
sizes="--set nx=$1 --set ny=$2 --set nz=$3"
for run in 1 2; do
    tune "$1 x $2 x $3 f32, store $run" pcg.$run "$budget" "$program" $sizes --precision f32
done
if fits "the choices raced" 10; then
    for turn in 1 2; do
        for run in 1 2; do
            race pcg.$run $sizes --precision f32 >> "$out/race.$run"
        done
        race none $sizes --precision f32 --untuned >> "$out/race.default"
    done
    for who in default 1 2; do
        echo "  raced $who: $(sort -g "$out/race.$who" | head -1) s an iteration"
    done
fi
tune "$1 x $2 x $3 f64" pcg.1 "$long" "$program" $sizes --precision f64
set -- $large
sizes="--set nx=$1 --set ny=$2 --set nz=$3"
for precision in f32 f64; do
    tune "$1 x $2 x $3 $precision" pcg.1 "$long" "$program" $sizes --precision $precision
done
tune "Maxwell, order 3, f32" dg "$short" dg --set N=3 --set n=8 --precision f32
rm -rf "$out/cache"
echo "$(($(date +%s) - begin)) s in all; stores of $(du -sk "$out/stores" | cut -f1) KiB in $out/stores"
