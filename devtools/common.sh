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

# cd_top: change to the top of the tree, whatever directory the script was called from.
cd_top() {
	cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
}

jobs_max() {
	nproc 2>/dev/null || echo 2
}

# configure DIR OPTION...: make DIR a build directory with exactly these options. If options or
# compiler ($CC) differ from the last time, DIR is wiped and set up anew. If a meson.build was added
# or removed, DIR is configured again, since meson watches only files that it has read.
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
	# Remove what an interrupted set-up left: nothing was built, and meson would refuse DIR.
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

# total PASSED FAILED SKIPPED: print the last line of each script.
total() {
	printf '%d passed, %d failed, %d skipped\n' "$1" "$2" "$3"
}

# total_of FILE: print the counts of FILE's last line, if total() printed it.
total_of() {
	tail -n 1 "$1" |
		sed -n -E 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p'
}
