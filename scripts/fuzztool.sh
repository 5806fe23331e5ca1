#!/bin/sh
# What go builds fuzz programs through (-toolexec): only packages of the project, and those of the library that take inputs
# apart, get the fuzzer's counters. It looks at every counter after every input: with those of all of net/http and crypto
# that took the command line's targets 0.37 ms an input, most of their time.
tool=$1
shift
if [ "$(basename "$tool")" = compile ]; then
	if [ "${1:-}" = -V=full ]; then
		echo "$("$tool" -V=full) with counters by $(cksum <"$0")" # another compiler to go's cache
		exit
	fi
	case ${TOOLEXEC_IMPORTPATH%% *} in
	foretoken | foretoken/* | foretoken_test | encoding/json | strconv | net/url | net/textproto | net/http | mime | path) ;;
	*) for a; do
		shift
		case $a in -d=libfuzzer*) ;; *) set -- "$@" "$a" ;; esac
	done ;;
	esac
fi
exec "$tool" "$@"
