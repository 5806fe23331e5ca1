// Waits outside WebAssembly: see wait.h.
#define _GNU_SOURCE  // syscall
#include "wait.h"

#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void sleep_while(u32 *word, u32 seen, i64 most) {
  struct timespec time = {most / 1000000000, most % 1000000000};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &time, 0, 0);
}
void wake(u32 *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0); }

#elif defined(_WIN32)
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0602  // WaitOnAddress
#include <windows.h>

void sleep_while(u32 *word, u32 seen, i64 most) { WaitOnAddress(word, &seen, sizeof seen, (DWORD)(most / 1000000)); }
void wake(u32 *word) { WakeByAddressAll(word); }

#elif !defined(__wasm__)
#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void sleep_while(u32 *word, u32 seen, i64 most) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  i64 ends = until.tv_nsec + most;
  until.tv_sec += ends / 1000000000, until.tv_nsec = ends % 1000000000;
  pthread_mutex_lock(&mutex);
  while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen && pthread_cond_timedwait(&changed, &mutex, &until) == 0) {
  }
  pthread_mutex_unlock(&mutex);
}
void wake(__attribute__((unused)) u32 *word) {
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

#endif
