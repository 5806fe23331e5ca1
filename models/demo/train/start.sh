#!/bin/sh
# Starts or resumes the target's training in the background at the lowest priority. Stop: kill $(cat ../run/pid).
cd "$(dirname "$0")"
mkdir -p ../run
if [ -f ../run/pid ] && kill -0 "$(cat ../run/pid)" 2>/dev/null; then
  echo "already running: $(cat ../run/pid)"
  exit 1
fi
# Where Linux groups processes by session, a session's priority counts and not the process's.
OMP_NUM_THREADS=1 setsid nohup sh -c 'echo 19 2>/dev/null >/proc/self/autogroup; exec "$@"' trainer \
  nice -n 19 /usr/bin/python3 train.py --config target.json "$@" >>../run/out.txt 2>&1 </dev/null &
echo $! >../run/pid
