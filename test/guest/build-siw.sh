#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Compile the kernel module siw: build-siw.sh DIR VERSION; called by setup.sh. In DIR are the
# packages linux-source, linux-headers (of the flavour and common) and linux-kbuild of that version.
# They are unpacked, not installed. Makes DIR/siw.ko.

set -euo pipefail
cd "$1"
version=$2
siw=drivers/infiniband/sw/siw

dpkg-deb --fsys-tarfile linux-source-*.deb |
	tar -xO --wildcards '*/linux-source-*.tar.xz' |
	tar -xJ --strip-components=1 --wildcards "*/$siw/*"
rm linux-source-*.deb
for deb in *.deb; do
	dpkg-deb --extract "$deb" .
done
sed -i "s#/usr/src/#$PWD/usr/src/#" "usr/src/linux-headers-$version/Makefile"
make -C "usr/src/linux-headers-$version" "M=$PWD/$siw" CONFIG_RDMA_SIW=m \
	CONFIG_DEBUG_INFO_BTF_MODULES= modules
strip --strip-debug "$siw/siw.ko"
mv "$siw/siw.ko" siw.ko
