#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Make the kernel and the initramfs of the guest: setup.sh DIR SERIES SIW UPDATE; called by
# devtools/guest.
#
#   DIR     where kernels and initramfs are kept, from one run to the next
#   SERIES  Debian's kernel series, 6.1 or 6.12
#   SIW     true: with the module siw, which Debian does not build
#   UPDATE  true: look for a newer kernel of the series
#
# Prints one line, "DIRECTORY INITRAMFS": where the kernel (vmlinux) and the initramfs are.
# Nothing is installed and nothing needs root: packages are fetched with apt and taken apart here.
#
#   DIR/lock            held by the process that changes something
#   DIR/kernel-SERIES   the version that is used
#   DIR/apt             package lists of this script's own, if the system's don't serve
#   DIR/linux-VERSION/  vmlinux, busybox, lib/modules, siw.ko, initramfs-SUM
#   DIR/*.part          unfinished; the holder of the lock may remove it
#
# Each file is made under another name and then renamed, so a file with its final name is complete,
# and a set-up that was killed resumes where it was.
#
# Exit code: 0; 77: not possible on this machine (the reason is on stderr); 1: a failure.

set -euo pipefail

state=$1
series=$2
with_siw=$3
update=$4
here=$(cd "$(dirname "$0")" && pwd)

note() { printf 'guest: %s\n' "$*" >&2; }
cannot() {
	note "can't run here: $*"
	exit 77
}
broken() {
	note "set-up failed: $*"
	exit 1
}

# Modules that stage 1 of the guest loads or may load; missing ones are left out.
modules=(
	# the machine
	virtio_pci virtio_console virtio_net 9pnet_virtio 9p overlay
	# RDMA
	rdma_rxe siw ib_uverbs rdma_ucm ib_umad
	# networks and their faults
	veth dummy bridge sch_netem sch_tbf cls_u32
	# requested by the modules above by name only
	crc32c_generic crc32_generic crc32_pclmul crc32c-intel
)

apt_own=(-o "Dir::State::Lists=$state/apt/lists" -o "Dir::Cache=$state/apt/cache")
apt_options=()

# run_apt PROGRAM ARGUMENT...: run a program of apt with the system's package lists, or this
# script's
run_apt() {
	local program=$1
	shift
	"$program" ${apt_options[@]+"${apt_options[@]}"} -q -o Acquire::Retries=3 "$@" \
		</dev/null 2>>"$state/apt.log"
}

own_lists() {
	[ ${#apt_options[@]} = 0 ] || return 1
	note "updating package lists"
	apt_options=("${apt_own[@]}")
	mkdir -p "$state/apt/lists/partial" "$state/apt/cache/archives/partial"
	run_apt apt-get update >>"$state/apt.log" && return 0
	cannot "no Debian mirror answers (see $state/apt.log)"
}

# download DIR PACKAGE...: fetch packages into DIR
download() {
	local dir=$1
	shift
	rm -rf "$dir"
	mkdir -p "$dir" && cd "$dir" && run_apt apt-get download "$@" >>"$state/apt.log" &&
		cd "$here"
}

# The newest signed kernel of the series, from the dependency of its meta-package.
newest_kernel() {
	local meta=linux-image-amd64
	[ "$series" = 6.1 ] || meta=linux-image-$series-amd64
	run_apt apt-cache depends "$meta" |
		sed -n 's/^ *Depends: *linux-image-\([0-9].*\)/\1/p' | head -n 1
}

# unpack_kernel VMLINUZ OUT: uncompress the kernel, so that it boots directly (PVH), without
# firmware and without emulating a decompressor.
unpack_kernel() {
	local magic tool at
	while read -r magic tool; do
		while read -r at; do
			tail -c "+$((at + 1))" "$1" | $tool >"$2" 2>/dev/null || true
			[ "$(head -c 4 "$2" | od -An -tx1 | tr -d ' \n')" != 7f454c46 ] || return 0
		done < <(LC_ALL=C grep -aobP "$magic" "$1" | LC_ALL=C cut -d : -f 1)
	done <<-'END_OF_MAGIC'
		\xFD7zXZ\x00 xz -dc
		\x28\xB5\x2F\xFD zstd -dc
		\x1F\x8B\x08 gzip -dc
	END_OF_MAGIC
	return 1
}

have_kernel() { [ -s "$state/linux-$1/vmlinux" ]; }

# fetch_kernel VERSION: fetch the packages for make_kernel
fetch_kernel() {
	[ -n "$1" ] || return 1
	note "fetching linux-image-$1 and busybox-static (70 MB)"
	download "$state/linux-$1.part/deb" "linux-image-$1" busybox-static
}

# make_kernel VERSION: make DIR/linux-VERSION, without siw and the initramfs
make_kernel() {
	local version=$1 part=$state/linux-$1.part deb busybox
	note "unpacking them"
	for deb in "$part"/deb/*.deb; do
		dpkg-deb --extract "$deb" "$part/unpacked" || broken "$deb is no package"
	done
	unpack_kernel "$part/unpacked/boot/vmlinuz-$version" "$part/vmlinux" ||
		broken "no kernel found inside vmlinuz-$version"
	busybox=$part/unpacked/bin/busybox
	[ -x "$busybox" ] || busybox=$part/unpacked/usr/bin/busybox
	mv "$busybox" "$part/busybox"
	mkdir -p "$part/lib"
	mv "$part/unpacked/lib/modules" "$part/lib/modules"
	dpkg-deb -f "$part"/deb/linux-image-*.deb Version >"$part/package"
	rm -rf "$part/unpacked" "$part/deb"
	"$part/busybox" depmod -b "$part" "$version" || broken "depmod"
	rm -rf "$state/linux-$version"
	mv "$part" "$state/linux-$version"
}

# make_siw DIR VERSION: build the one module that Debian does not, from the kernel's own source
make_siw() {
	local dir=$1 version=$2 part=$1/siw.part package kbuild packages
	package=$(cat "$dir/package")
	kbuild=$(run_apt apt-cache depends "linux-headers-$version" |
		sed -n 's/.*\(linux-kbuild-.*\)/\1/p' | head -n 1) || kbuild=
	packages=(
		"linux-source-$series=$package"
		"linux-headers-$version=$package"
		"linux-headers-${version%-amd64}-common=$package"
		"${kbuild:-linux-kbuild-$series}=$package"
	)
	note "building siw.ko: fetching the kernel's source (140 MB), a minute in all"
	if ! download "$part" "${packages[@]}"; then
		if ! own_lists || ! download "$part" "${packages[@]}"; then
			cannot "no source of linux $version: devtools/guest --update --setup"
		fi
	fi
	note "building siw.ko: compiling"
	bash "$here/build-siw.sh" "$part" "$version" >"$dir/siw.log" 2>&1 ||
		broken "siw.ko was not built (see $dir/siw.log)"
	mv "$part/siw.ko" "$dir/siw.ko"
	rm -rf "$part"
}

# make_initramfs DIR VERSION OUT: pack busybox, the modules with their dependencies, and stage 1
make_initramfs() {
	local dir=$1 version=$2 out=$3 part=$1/initramfs.part sub=lib/modules/$2 module file
	note "making the initramfs"
	rm -rf "$part"
	mkdir -p "$part"/{bin,proc,sys,dev,run,host,rw,new} "$part/$sub"
	cp "$dir/busybox" "$part/bin/busybox"
	ln -s busybox "$part/bin/sh"
	cp "$here/init" "$part/init"
	chmod 755 "$part/init"
	for module in "${modules[@]}"; do
		sed -n "s#^\([^:]*/${module//[-_]/[-_]}\.ko[.xzst]*\): *\(.*\)#\1 \2#p" \
			"$dir/$sub/modules.dep" | tr ' ' '\n'
	done | sed '/^$/d' | sort -u >"$part/wanted"
	[ ! -s "$dir/siw.ko" ] ||
		sed -n 's#^\([^:]*/\(ib_core\|libcrc32c\|iw_cm\)\.ko[.xz]*\): *\(.*\)#\1 \3#p' \
			"$dir/$sub/modules.dep" | tr ' ' '\n' | sed '/^$/d' >>"$part/wanted"
	while read -r file; do
		mkdir -p "$part/$sub/${file%/*}"
		case $file in
		*.xz) xz -dc "$dir/$sub/$file" >"$part/$sub/${file%.xz}" ;;
		*) cp "$dir/$sub/$file" "$part/$sub/$file" ;;
		esac
	done < <(sort -u "$part/wanted")
	rm "$part/wanted"
	if [ -s "$dir/siw.ko" ]; then
		cp "$dir/siw.ko" "$part/$sub/siw.ko"
	fi
	cp "$dir/$sub"/modules.builtin* "$dir/$sub/modules.order" "$part/$sub/"
	"$dir/busybox" depmod -b "$part" "$version" || broken "depmod"
	(cd "$part" && find . | cpio -o -H newc --quiet) >"$out.part"
	rm -rf "$part"
	# Remove the initramfs of other versions of this tree, but none younger than a day: a guest
	# may be about to boot it.
	find "$dir" -name 'initramfs-*' -mmin +1440 -delete
	mv "$out.part" "$out"
}

# Remove the remains of set-ups and runs that were killed.
clean() {
	local run
	rm -rf "$state"/*.part "$state"/*/*.part
	while read -r run; do
		# A run and its qemu hold this lock as long as they live.
		if [ ! -e "$run/alive" ] || flock -n "$run/alive" true; then
			rm -rf "$run"
		fi
	done < <(find "$state" -maxdepth 1 -name 'boot.*' -mmin +1)
}

mkdir -p "$state"
exec {lock}>"$state/lock"
if ! flock -n "$lock"; then
	note "waiting for another set-up in $state"
	flock "$lock"
fi
clean

version=
[ ! -s "$state/kernel-$series" ] || version=$(cat "$state/kernel-$series")
if $update || ! have_kernel "$version"; then
	! $update || own_lists
	version=$(newest_kernel) || version=
	# Missing lists name no package; lists that are too old name packages that are no longer
	# there.
	if ! have_kernel "$version" && ! fetch_kernel "$version"; then
		! own_lists || version=$(newest_kernel) || version=
		[ -n "$version" ] || cannot "no mirror has a kernel $series (see $state/apt.log)"
		have_kernel "$version" || fetch_kernel "$version" ||
			cannot "linux-image-$version can't be fetched (see $state/apt.log)"
	fi
	have_kernel "$version" || make_kernel "$version"
fi
dir=$state/linux-$version
if [ "$(cat "$state/kernel-$series" 2>/dev/null)" != "$version" ]; then
	printf '%s\n' "$version" >"$state/kernel-$series.part"
	mv "$state/kernel-$series.part" "$state/kernel-$series"
fi
if $with_siw && [ ! -s "$dir/siw.ko" ]; then
	make_siw "$dir" "$version"
fi
inputs=("$here/setup.sh" "$here/init")
[ ! -s "$dir/siw.ko" ] || inputs+=("$dir/siw.ko")
sum=$(cat "${inputs[@]}" | sha256sum | cut -c 1-16)
[ -s "$dir/initramfs-$sum" ] || make_initramfs "$dir" "$version" "$dir/initramfs-$sum"
printf '%s %s\n' "$dir" "initramfs-$sum"
