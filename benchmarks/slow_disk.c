/* Preloaded into a broker: writes and fsyncs of files below SLOW_DISK_PATH take longer, as on a slow or hung disk.
 * SLOW_DISK_CONTROL is a file of two 32-bit integers: milliseconds per write, milliseconds per fsync.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile int32_t *control;
static const char *slow_path;

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("SLOW_DISK_CONTROL");
    slow_path = getenv("SLOW_DISK_PATH");
    int fd = name && slow_path ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    control = page == MAP_FAILED ? NULL : page;
}

static void delay(int fd, int which)
{
    char link[32], path[4096];
    int32_t ms = control ? control[which] : 0;
    if (ms <= 0)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0)
        return;
    path[n] = 0;
    if (strncmp(path, slow_path, strlen(slow_path)) == 0) {
        struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
        nanosleep(&pause, NULL);
    }
}

#define SLOW(which, result, name, parameters, arguments)                          \
    result name parameters                                                        \
    {                                                                             \
        static result(*real) parameters;                                          \
        if (!real)                                                                \
            real = dlsym(RTLD_NEXT, #name);                                       \
        delay(fd, which);                                                         \
        return real arguments;                                                    \
    }

SLOW(0, ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
SLOW(0, ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
SLOW(0, ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
SLOW(0, ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at))
SLOW(0, ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
SLOW(0, ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at))
SLOW(1, int, fsync, (int fd), (fd))
SLOW(1, int, fdatasync, (int fd), (fd))
