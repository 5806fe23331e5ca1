#!/bin/sh
# go builds fuzz programs through this (-toolexec): only the project's packages that see inputs, and the library's that
# parse them, get the fuzzer's counters. The fuzzer looks at every counter after every input, and those of net/http,
# crypto and the devices would take most of its time.
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
