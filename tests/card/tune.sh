#!/bin/sh
# Measures the tuner on a card and prints the rows of the table in docs/performance.md, what matters most first: a cold tune
# of pressure correction in a budget of 60 s; three matrices with automatic formats in two precisions; a second tune with a
# store of its own, whose choice races the first one's; pressure correction in f64 and at a large size; a matrix in csr by the
# guided and by the exhaustive search; element kernels.
# Usage: tune.sh KERNELWRIGHT PROGRAMS OUT [BACKEND]
#   KERNELWRIGHT  the command, built with --release
#   PROGRAMS      folder with pressure_correction.kw
#   OUT           folder for what is measured: tune.md (what is printed) and tune.tar; OUT/tune is made anew, and taken away
#   BACKEND       cuda; or host, at smaller sizes
# BUDGET is the seconds of the cold tune (60); SHORT those of a product (8; on the host 15), LONG those of the other tunes of
# pressure correction (24; on the host 30).
# LIMIT is the seconds that all may take (230; on the host 900): what would not fit any more is left out, and said so.
# Wall time is that of `date` before and after the command, its start and its reading of files included.
# OUT/tune.tar holds what each command printed, and every measurement: a line of JSON each, in stores.
set -u
command=$1 program=$2/pressure_correction.kw place=$3 out=$3/tune backend=${4-cuda}
rm -rf "$out"
mkdir -p "$out/stores"
export KERNELWRIGHT_CACHE="$place/tune.cache"
rm -rf "$KERNELWRIGHT_CACHE"
if [ "$backend" = cuda ]; then
    small="256 256 128" large="1024 1024 128" short=${SHORT-8} long=${LONG-24} scale=0.1 limit=${LIMIT-230}
else
    small="128 128 64" large="256 256 128" short=${SHORT-15} long=${LONG-30} scale=0.01 limit=${LIMIT-900}
fi
budget=${BUDGET-60}
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
    started=$(date +%s.%N)
    KERNELWRIGHT_TUNED="$out/stores/$store" "$command" tune "$@" --backend "$backend" --budget "${seconds}s" \
        > "$file.txt" 2> "$file.log"
    status=$?
    took=$(echo "$started $(date +%s.%N)" | awk '{ printf "%.1f s", $2 - $1 }')
    if [ "$status" != 0 ]; then
        echo "| $name | $seconds s | $took | failed: $(grep -v ' of ' "$file.log" | tail -5 | tr '\n|' '  ') | | | | |"
        return
    fi
    candidates=$(sed -n '2s/ candidates.*//p' "$file.txt")
    ended=$(sed -n '2s/.*before; [0-9.]* s, \(.*\)/\1/p' "$file.txt")
    final=$(sed -n '/^\(Whole iterations\|Products\|Steps\)$/,$p' "$file.txt")
    # Time and gain of a line of the final, whose fraction of the copy may be missing.
    line='{ last = $NF == "%" ? NF - 2 : NF; print $(last-2), $(last-1) " | " $last; exit }'
    default=$(echo "$final" | awk "\$1 == \"default\" $line" | cut -d'|' -f1)
    best=$(echo "$final" | awk "\$1 == \"best\" $line")
    chosen=$(echo "$final" | sed -n '/^$/,$p' | sed -n 's/^  //p' | grep -v '^kept in' | tr '\n' ' ')
    echo "| $name | $seconds s | $took | $candidates | $default | $best | $chosen; $ended |"
    # Of kernels: how many of how many were looked at, default, best, gain.
    sed -n '/^Kernels$/,/^$/p' "$file.txt" | awk 'NR > 2 && NF > 8 { print "    " $0 }' | cut -c 1-110
    grep '^note: ' "$file.log" | grep -v 'tuned: ' | head -3
}

# Seconds of an iteration of the choice in a store.
race() {
    store=$1
    shift
    KERNELWRIGHT_TUNED="$out/stores/$store" "$command" bench "$program" --backend "$backend" --runs 3 --json "$@" \
        2>> "$out/bench.log" | grep -m1 '"seconds_per_iteration"' | tr -d ' ,' | cut -d: -f2
}

measure() {
    "$command" doctor 2>&1 | head -12
    echo
    echo "| | budget | took | candidates | default | best | gain | chosen |"
    echo "|---|---|---|---|---|---|---|---|"
    set -- $small
    sizes="--set nx=$1 --set ny=$2 --set nz=$3"
    tune "$1 x $2 x $3 f32, cold, store 1" pcg.1 "$budget" "$program" $sizes --precision f32
    for precision in f32 f64; do
        for kind in samg-like poisson7 powerlaw; do
            tune "product $kind, $scale of its size, $precision" products "$short" --kind $kind --scale $scale \
                --precision $precision
        done
    done
    tune "$1 x $2 x $3 f32, store 2" pcg.2 "$long" "$program" $sizes --precision f32
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
    csr="--kind samg-like --scale $scale --precision f32 --format csr"
    set -- $large
    tune "$1 x $2 x $3 f32" pcg.1 "$long" "$program" --set nx=$1 --set ny=$2 --set nz=$3 --precision f32
    tune "product samg-like in csr, guided" guided "$short" $csr
    set -- $small
    tune "$1 x $2 x $3 f64" pcg.1 "$long" "$program" $sizes --precision f64
    tune "product samg-like in csr, exhaustive" exhaustive 40 $csr --exhaustive
    tune "Maxwell, order 3, f32" dg "$short" dg --set N=3 --set n=8 --precision f32
    echo "$(($(date +%s) - begin)) s in all"
}

measure 2>&1 | tee "$place/tune.md"
rm -rf "$KERNELWRIGHT_CACHE"
tar -cf "$place/tune.tar" -C "$place" tune && rm -rf "$out"
