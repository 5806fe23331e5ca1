#!/bin/sh
# Prints the path of the newer RADV of Debian's backports, Mesa 25's, and first unpacks it if it is missing; nothing is
# installed. Packages come from where apt has its own.
set -eu
out=$PWD/build/tools/radv
library=$out/usr/lib/x86_64-linux-gnu/libvulkan_radeon.so
if [ ! -e "$library" ]; then
	mkdir -p "$out/lists/partial" "$out/cache/archives/partial"
	cd "$out"
	from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)
	key=/usr/share/keyrings/debian-archive-keyring.gpg
	for suite in bookworm bookworm-backports; do echo "deb [signed-by=$key] $from $suite main"; done >sources.list
	apt="apt-get -qq -o Dir::Etc::sourcelist=$out/sources.list -o Dir::Etc::sourceparts=/nonexistent
		-o Dir::State::lists=$out/lists -o Dir::Cache=$out/cache -o APT::Sandbox::User=root"
	$apt update >&2
	$apt download mesa-vulkan-drivers/bookworm-backports >&2
	dpkg -x mesa-vulkan-drivers*.deb .
fi
echo "$library"
