# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Shared by the scripts in devtools/ and by .ci/run. Source it from the top of the tree.

say() {
	printf '== %s\n' "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# The tree's own directory, whatever directory the script was called from.
cd_top() {
	cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
}

jobs_max() {
	nproc 2>/dev/null || echo 2
}

# configure DIR OPTION...: a build directory with exactly these options. It is set up once; other
# options than last time, or another compiler ($CC), make it anew, and meson.build files that came
# or went configure it again (a part that is not there yet is not one meson watches).
configure() {
	local dir=$1 want parts had=
	shift
	want="CC=${CC:-} $*"
	parts=$(find lib drivers python apps test doc -name meson.build 2>/dev/null | sort | cksum)
	[ -f "$dir/.leat-options" ] && had=$(cat "$dir/.leat-options")
	if [ -f "$dir/build.ninja" ] && [ "$had" = "$want $parts" ]; then
		return 0
	fi
	if [ -d "$dir" ] && [ ! -d "$dir/meson-private" ] && [ -n "$(ls -A "$dir")" ]; then
		die "$dir is not a build directory; choose another with --builddir"
	fi
	# Interrupted while it was made: nothing is in it yet, and meson would refuse it.
	if [ -d "$dir/meson-private" ] && [ ! -f "$dir/meson-private/coredata.dat" ]; then
		rm -rf "$dir"
	fi
	say "configuring $dir"
	if [ ! -d "$dir/meson-private" ]; then
		meson setup "$dir" "$@" || return 1
	elif [ -f "$dir/build.ninja" ] && [ "${had% * *}" = "$want" ]; then
		meson setup "$dir" --reconfigure || return 1
	else
		meson setup "$dir" --wipe "$@" || return 1
	fi
	printf '%s\n' "$want $parts" >"$dir/.leat-options"
}

# compile DIR [TARGET...]
compile() {
	local dir=$1
	shift
	say "building $dir"
	ninja -C "$dir" -j "$(jobs_max)" "$@"
}

# total PASSED FAILED SKIPPED: the line that every one of these scripts ends with.
total() {
	printf '%d passed, %d failed, %d skipped\n' "$1" "$2" "$3"
}

# total_of FILE: the counts of such a line, if it is the last one of FILE.
total_of() {
	tail -n 1 "$1" |
		sed -n -E 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p'
}
