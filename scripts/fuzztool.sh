#!/bin/sh
# What go builds fuzz programs through (-toolexec): only packages of the project that see inputs, and those of the library
# that take them apart, get the fuzzer's counters. It looks at every counter after every input: with those of all of net/http and
# crypto that took the command line's targets 0.37 ms an input, most of their time; without those of net/http and the
# devices they came to half as many inputs again.
tool=$1
shift
# uncounted is the command line of the compiler without the flags that make counters.
uncounted() {
	for a; do
		shift
		case $a in -d=libfuzzer*) ;; *) set -- "$@" "$a" ;; esac
	done
	exec "$tool" "$@"
}
if [ "$(basename "$tool")" = compile ]; then
	if [ "${1:-}" = -V=full ]; then
		echo "$("$tool" -V=full) with counters by $(cksum <"$0")" # another compiler to go's cache
		exit
	fi
	case ${TOOLEXEC_IMPORTPATH%% *} in
	foretoken/webgpu | foretoken/webgpu/*) uncounted "$@" ;;
	foretoken | foretoken/* | foretoken_test | encoding/json | strconv | net/url | net/textproto | mime | path) ;;
	*) uncounted "$@" ;;
	esac
fi
exec "$tool" "$@"
