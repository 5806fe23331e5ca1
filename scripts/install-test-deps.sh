#!/bin/sh
# Installs what the tests need besides Go, Node and make: three browsers (WebKitGTK needs an X server, xvfb), Vulkan
# drivers (Mesa's lavapipe, for the native device), numpy (for references that tests compute), React (for its hook),
# clang 16 (to rebuild the modules of the cpu device, which it built), and gcc and an emulator for arm64 (for its
# intrinsics). As root on Debian or Ubuntu it uses apt; elsewhere it names what is missing.
set -eu
missing=""
command -v "${CHROMIUM:-/usr/bin/chromium}" >/dev/null 2>&1 || missing="$missing chromium"
command -v firefox-esr >/dev/null 2>&1 || command -v firefox >/dev/null 2>&1 || missing="$missing firefox-esr"
command -v WebKitWebDriver >/dev/null 2>&1 || missing="$missing webkit2gtk-driver"
command -v Xvfb >/dev/null 2>&1 || missing="$missing xvfb"
{ command -v clang-16 && command -v wasm-ld-16; } >/dev/null 2>&1 || missing="$missing clang-16 lld-16"
{ command -v aarch64-linux-gnu-gcc && command -v qemu-aarch64; } >/dev/null 2>&1 ||
  missing="$missing gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name '*.json' 2>/dev/null | grep -q . ||
  missing="$missing mesa-vulkan-drivers"
ldconfig -p 2>/dev/null | grep -q libvulkan.so.1 || missing="$missing libvulkan1"
{ [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import numpy' >/dev/null 2>&1; } || missing="$missing python3-numpy"
[ -d /usr/share/nodejs/react-dom ] || missing="$missing node-react node-react-dom"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing:$missing"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
  echo "missing:$missing" >&2
  echo "install them with your package manager (Debian's names; tests that need them fail without them)" >&2
  exit 1
fi
