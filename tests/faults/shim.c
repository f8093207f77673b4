/* Lets the Nth call that changes or opens a file below a directory fail, or be the
 * last that the process makes. Loaded with LD_PRELOAD, so that what native libraries
 * write counts too; harmless until `fault_arm` is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char below[PATH_MAX];
static size_t below_length;
static long fails_at;
static int fails_with; /* 0: the process ends there. */
static int told = -1;
static atomic_long count;

/* Arms it: `at` counts from 1, 0 only counts; every call is a line in `log`. */
void fault_arm(const char *directory, long at, int error, int log) {
    below_length = strlen(strncpy(below, directory, sizeof below - 1));
    fails_at = at;
    fails_with = error;
    told = log;
    atomic_store(&count, 0);
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void die(void) {
    kill(getpid(), SIGKILL);
    pause();
}

/* Whether this call is the one; the process may already have to end. */
static int is_due(const char *call, const char *path) {
    if (!below_length || !path || strncmp(path, below, below_length)) return 0;
    long number = ++count;
    if (told >= 0) dprintf(told, "%s %s\n", call, path + below_length);
    return fails_at && number == fails_at;
}

static int refused(const char *call, const char *path) {
    int before = errno;
    if (!is_due(call, path)) {
        errno = before;
        return 0;
    }
    if (!fails_with) die();
    errno = fails_with;
    return 1;
}

static const char *path_of(int descriptor, char *path) {
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    errno = before;
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static const char *path_at(int directory, const char *name, char *path) {
    if (name[0] == '/' || directory == AT_FDCWD) return name;
    path_of(directory, path);
    size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s", name);
    return path;
}

/* A write that is due to end the process tears what it writes. */
static int write_refused(const char *call, int file, const void *data, size_t size) {
    char path[PATH_MAX];
    if (!below_length) return 0;
    int before = errno;
    if (!is_due(call, path_of(file, path))) {
        errno = before;
        return 0;
    }
    if (!fails_with) {
        REAL(write);
        if (data && real(file, data, size / 2) < 0) perror("write");
        die();
    }
    errno = fails_with;
    return 1;
}

#define OPEN(flags) ((flags) & O_DIRECTORY ? "opendir" : "open")

#define MODE(flags, mode) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE(flags, mode)
    return refused(OPEN(flags), path) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE(flags, mode)
    return refused(OPEN(flags), path) ? -1 : real(path, flags, mode);
}

int openat(int directory, const char *name, int flags, ...) {
    REAL(openat);
    MODE(flags, mode)
    char path[PATH_MAX];
    if (refused(OPEN(flags), path_at(directory, name, path))) return -1;
    return real(directory, name, flags, mode);
}

int openat64(int directory, const char *name, int flags, ...) {
    REAL(openat64);
    MODE(flags, mode)
    char path[PATH_MAX];
    if (refused(OPEN(flags), path_at(directory, name, path))) return -1;
    return real(directory, name, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    REAL(fopen);
    return refused("open", path) ? NULL : real(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    REAL(fopen64);
    return refused("open", path) ? NULL : real(path, mode);
}

ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    return write_refused("write", file, data, size) ? -1 : real(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    return write_refused("write", file, NULL, 0) ? -1 : real(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    return write_refused("write", file, NULL, 0) ? -1 : real(file, data, size, at);
}

/* stdio writes when its buffer is full, flushed or closed; only then it can fail. */
size_t fwrite(const void *data, size_t size, size_t items, FILE *file) {
    REAL(fwrite);
    int writes = __fpending(file) + size * items > __fbufsize(file);
    if (writes && write_refused("write", fileno(file), data, size * items)) return 0;
    return real(data, size, items, file);
}

int fflush(FILE *file) {
    REAL(fflush);
    int writes = file && __fpending(file);
    if (writes && write_refused("write", fileno(file), NULL, 0)) return EOF;
    return real(file);
}

int fclose(FILE *file) {
    REAL(fclose);
    int refused = __fpending(file) && write_refused("write", fileno(file), NULL, 0);
    int error = errno;
    if (refused) __fpurge(file); /* It must not be written after all. */
    int result = real(file);
    if (refused) errno = error;
    return refused ? EOF : result;
}

int fsync(int file) {
    REAL(fsync);
    return write_refused("fsync", file, NULL, 0) ? -1 : real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    return write_refused("fsync", file, NULL, 0) ? -1 : real(file);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return refused("rename", to) ? -1 : real(from, to);
}

int renameat(int from_directory, const char *from, int directory, const char *to) {
    REAL(renameat);
    char path[PATH_MAX];
    if (refused("rename", path_at(directory, to, path))) return -1;
    return real(from_directory, from, directory, to);
}

int unlink(const char *path) {
    REAL(unlink);
    return refused("unlink", path) ? -1 : real(path);
}

int unlinkat(int directory, const char *name, int flags) {
    REAL(unlinkat);
    char path[PATH_MAX];
    if (refused("unlink", path_at(directory, name, path))) return -1;
    return real(directory, name, flags);
}

int rmdir(const char *path) {
    REAL(rmdir);
    return refused("unlink", path) ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return refused("mkdir", path) ? -1 : real(path, mode);
}

int mkdirat(int directory, const char *name, mode_t mode) {
    REAL(mkdirat);
    char path[PATH_MAX];
    if (refused("mkdir", path_at(directory, name, path))) return -1;
    return real(directory, name, mode);
}
