// One file for each object: a header with the key and a checksum, then the
// object.  Whatever is wrong with the folder or a file costs a hit, not a run.

#include "lowering/cache_disk.h"

#include "base/alloc.h"
#include "base/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DISK_VERSION 1
#define DISK_SHARDS 16
#define DISK_MAX_OBJECT (UINT64_C(64) << 20)
#define DISK_NAME 128           // of the longest name inside the folder
#define DISK_STALE_SECONDS 3600 // after which a temporary file has no writer
#define DISK_SMALL_LIMIT (UINT64_C(16) << 20) // looked at with every write

// What a file begins with, in the byte order of the machine: the key names
// the CPU, so no other machine asks for it.
typedef struct disk_header {
  char magic[8];
  uint32_t version;
  uint32_t unused;
  uint8_t key[32];
  uint64_t size;      // of the object that follows
  uint8_t digest[32]; // of symbol and object
  char symbol[TH_DISK_SYMBOL];
} disk_header;

static const char disk_magic[] = "THOBJ\r\n"; // eight with its NUL

_Static_assert(sizeof(disk_header) == 152, "no padding in the file");
_Static_assert(sizeof disk_magic == 8, "the whole of the field");

// ---- names -----------------------------------------------------------------

static void disk_name(const uint8_t key[32], char name[DISK_NAME]) {
  char hex[65];
  th_sha256_hex(key, hex);
  snprintf(name, DISK_NAME, "objects/%c/%s", hex[0], hex);
}

static void disk_digest(const disk_header *header, const void *object,
                        uint8_t digest[32]) {
  th_sha256_state state;
  th_sha256_init(&state);
  th_sha256_update(&state, header->symbol, sizeof header->symbol);
  th_sha256_update(&state, object, header->size);
  th_sha256_final(&state, digest);
}

// ---- the folder ------------------------------------------------------------

static bool disk_folder_path(const char *folder, char path[PATH_MAX]) {
  const char *own = folder != NULL ? folder : getenv("TH_CACHE_DIR");
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int size;
  if (own != NULL && *own != 0) {
    size = snprintf(path, PATH_MAX, "%s", own);
  } else if (xdg != NULL && *xdg == '/') { // the others are to be ignored
    size = snprintf(path, PATH_MAX, "%s/thunder", xdg);
  } else if (home != NULL && *home != 0) {
    size = snprintf(path, PATH_MAX, "%s/.cache/thunder", home);
  } else {
    return false;
  }
  return size < PATH_MAX;
}

// "512M" and the like; `fallback`, with a warning, for anything else.
static uint64_t disk_limit(th_context *ctx, uint64_t fallback) {
  const char *text = getenv("TH_CACHE_SIZE");
  if (text == NULL || *text == 0) {
    return fallback;
  }
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  static const char units[] = "KMGT";
  const char *unit = *end != 0 ? strchr(units, *end) : NULL;
  int shift = unit != NULL ? (int)(unit - units + 1) * 10 : 0;
  end += unit != NULL;
  if (errno != 0 || end == text || *end != 0 || strchr(text, '-') != NULL ||
      value > UINT64_MAX >> shift) {
    th_warn_once(ctx, "TH_CACHE_SIZE", TH_NOWHERE,
                 "TH_CACHE_SIZE is '%.40s', not a number of bytes like 512M",
                 text);
    return fallback;
  }
  return (uint64_t)value << shift;
}

// Makes the folders on the way that are missing.
static void disk_make_folders(const char *path) {
  char part[PATH_MAX];
  size_t size = strlen(path);
  memcpy(part, path, size + 1);
  for (size_t i = 1; i <= size; i++) {
    if (path[i] == '/' || path[i] == 0) {
      part[i] = 0;
      (void)mkdir(part, 0700);
      part[i] = path[i];
    }
  }
}

static void disk_not_used(th_context *ctx, const char *path,
                          const char *reason) {
  th_warn_once(ctx, "kernel cache folder", TH_NOWHERE,
               "kernel cache: '%s' is not used: %s", path, reason);
}

void th_disk_open(th_context *ctx, const char *folder, uint64_t limit,
                  th_disk *out_disk) {
  *out_disk = (th_disk){.folder = -1};
  out_disk->limit = limit != 0 ? limit : disk_limit(ctx, TH_DISK_DEFAULT_LIMIT);
  char path[PATH_MAX];
  if (out_disk->limit == 0 || !disk_folder_path(folder, path)) {
    return;
  }
  disk_make_folders(path);
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat facts;
  if (fd < 0 || fstat(fd, &facts) != 0) {
    disk_not_used(ctx, path, strerror(errno));
  } else if (facts.st_uid != geteuid()) {
    disk_not_used(ctx, path, "it belongs to another user");
  } else if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    disk_not_used(ctx, path, "others may write to it");
  } else {
    out_disk->folder = fd;
    return;
  }
  if (fd >= 0) {
    close(fd);
  }
}

void th_disk_close(th_disk *disk) {
  if (disk->folder >= 0) {
    close(disk->folder);
    disk->folder = -1;
  }
}

// ---- read ------------------------------------------------------------------

static bool disk_read_bytes(int fd, void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got = read(fd, (char *)data + done, size - done);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;
    }
    done += got > 0 ? (size_t)got : 0;
  }
  return true;
}

static bool disk_header_is_right(const disk_header *header,
                                 const struct stat *facts,
                                 const uint8_t key[32]) {
  return memcmp(header->magic, disk_magic, sizeof header->magic) == 0 &&
         header->version == DISK_VERSION &&
         memcmp(header->key, key, sizeof header->key) == 0 &&
         header->size <= DISK_MAX_OBJECT &&
         header->size + sizeof *header == (uint64_t)facts->st_size &&
         memchr(header->symbol, 0, sizeof header->symbol) != NULL;
}

// False also when memory is out, which is no reason to remove the file.
static bool disk_read_file(int fd, const uint8_t key[32], disk_header *header,
                           th_bytes *out_object, bool *out_damaged) {
  struct stat facts;
  *out_damaged = true;
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) ||
      facts.st_uid != geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
      !disk_read_bytes(fd, header, sizeof *header) ||
      !disk_header_is_right(header, &facts, key)) {
    return false;
  }
  void *data = th_malloc(header->size + 1);
  if (data == NULL) {
    *out_damaged = false;
    return false;
  }
  uint8_t digest[32];
  if (disk_read_bytes(fd, data, header->size)) {
    disk_digest(header, data, digest);
    if (memcmp(digest, header->digest, sizeof digest) == 0) {
      *out_object = (th_bytes){data, header->size};
      return true;
    }
  }
  th_free(data);
  return false;
}

bool th_disk_has(const th_disk *disk, const uint8_t key[32]) {
  char name[DISK_NAME];
  disk_name(key, name);
  return disk->folder >= 0 && faccessat(disk->folder, name, F_OK, 0) == 0;
}

bool th_disk_read(th_disk *disk, const uint8_t key[32],
                  char out_symbol[TH_DISK_SYMBOL], th_bytes *out_object) {
  if (disk->folder < 0) {
    return false;
  }
  char name[DISK_NAME];
  disk_name(key, name);
  // Not blocking: a pipe under that name must not stop us.
  int fd = openat(disk->folder, name,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  disk_header header;
  bool damaged;
  bool found = disk_read_file(fd, key, &header, out_object, &damaged);
  if (found) {
    memcpy(out_symbol, header.symbol, sizeof header.symbol);
    (void)futimens(fd, NULL); // used now
  } else if (damaged) {
    th_disk_remove(disk, key);
  }
  close(fd);
  return found;
}

void th_disk_remove(th_disk *disk, const uint8_t key[32]) {
  char name[DISK_NAME];
  disk_name(key, name);
  (void)unlinkat(disk->folder, name, 0);
}

// ---- removal of what is old ------------------------------------------------

typedef struct disk_entry {
  char name[65];
  uint64_t size;
  struct timespec used;
} disk_entry;

typedef struct disk_shard {
  disk_entry *entries;
  size_t count, cap;
  uint64_t total;
} disk_shard;

static int disk_compare_use(const void *a, const void *b) {
  const struct timespec *x = &((const disk_entry *)a)->used;
  const struct timespec *y = &((const disk_entry *)b)->used;
  if (x->tv_sec != y->tv_sec) {
    return x->tv_sec < y->tv_sec ? -1 : 1;
  }
  return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static bool disk_is_entry(const char *name) {
  return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
}

static bool disk_shard_add(disk_shard *shard, const char *name,
                           const struct stat *facts) {
  if (shard->count == shard->cap) {
    size_t cap = shard->cap != 0 ? shard->cap * 2 : 64;
    disk_entry *grown = th_realloc(shard->entries, cap * sizeof *grown);
    if (grown == NULL) {
      return false;
    }
    shard->entries = grown;
    shard->cap = cap;
  }
  disk_entry *entry = &shard->entries[shard->count++];
  memcpy(entry->name, name, sizeof entry->name);
  entry->size = (uint64_t)facts->st_size;
  entry->used = facts->st_mtim;
  shard->total += entry->size;
  return true;
}

// Lists the entries, and removes temporary files that have no writer any more.
static bool disk_shard_scan(int fd, DIR *folder, disk_shard *shard) {
  time_t now = time(NULL);
  for (struct dirent *item; (item = readdir(folder)) != NULL;) {
    struct stat facts;
    if (fstatat(fd, item->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      continue; // another process was faster
    }
    if (disk_is_entry(item->d_name)) {
      if (!disk_shard_add(shard, item->d_name, &facts)) {
        return false;
      }
    } else if (strncmp(item->d_name, ".part-", 6) == 0 &&
               now - facts.st_mtim.tv_sec > DISK_STALE_SECONDS) {
      (void)unlinkat(fd, item->d_name, 0);
    }
  }
  return true;
}

// Down to seven eighths, so that not every write has to remove something.
// `keep` was written just now, within the resolution of the clock.
static void disk_shard_shrink(int fd, disk_shard *shard, uint64_t share,
                              const char *keep) {
  if (shard->total <= share) {
    return;
  }
  qsort(shard->entries, shard->count, sizeof *shard->entries, disk_compare_use);
  for (size_t i = 0; i < shard->count && shard->total > share / 8 * 7; i++) {
    const disk_entry *entry = &shard->entries[i];
    if (strcmp(entry->name, keep) != 0 && unlinkat(fd, entry->name, 0) == 0) {
      shard->total -= entry->size;
    }
  }
}

static void disk_trim(th_disk *disk, const uint8_t key[32]) {
  if (disk->limit > DISK_SMALL_LIMIT && key[1] % 8 != 0) {
    return;
  }
  char name[DISK_NAME];
  disk_name(key, name);
  char *slash = strrchr(name, '/');
  *slash = 0;
  int fd = openat(disk->folder, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  if (folder == NULL) {
    if (fd >= 0) {
      close(fd);
    }
    return;
  }
  disk_shard shard = {0};
  if (disk_shard_scan(fd, folder, &shard)) {
    disk_shard_shrink(fd, &shard, disk->limit / DISK_SHARDS, slash + 1);
  }
  th_free(shard.entries);
  closedir(folder);
}

// ---- write -----------------------------------------------------------------

static bool disk_write_bytes(int fd, const void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t put = write(fd, (const char *)data + done, size - done);
    if (put < 0 && errno != EINTR) {
      return false;
    }
    done += put > 0 ? (size_t)put : 0;
  }
  return true;
}

// A name that nobody else has: a process may be the child of another, or live
// on another machine with the same folder.
static int disk_create_next(const th_disk *disk, const char *shard,
                            char temporary[DISK_NAME]) {
  static atomic_uint counter;
  uint64_t random = 0; // without it the others still mostly do
  (void)getrandom(&random, sizeof random, GRND_NONBLOCK);
  snprintf(temporary, DISK_NAME, "%s/.part-%u-%u-%016" PRIx64, shard,
           (unsigned)getpid(), atomic_fetch_add(&counter, 1), random);
  return openat(disk->folder, temporary,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

// Opens a temporary file beside `name`, making the folders at first.
static int disk_create(const th_disk *disk, const char *name,
                       char temporary[DISK_NAME]) {
  char shard[] = "objects/x";
  shard[8] = name[8];
  int fd = disk_create_next(disk, shard, temporary);
  if (fd < 0 && errno == ENOENT) {
    (void)mkdirat(disk->folder, "objects", 0700);
    (void)mkdirat(disk->folder, shard, 0700);
    fd = disk_create_next(disk, shard, temporary);
  }
  while (fd < 0 && errno == EEXIST) {
    fd = disk_create_next(disk, shard, temporary);
  }
  return fd;
}

// Not flushed to the disk: after a crash the checksum tells.
static bool disk_put(const th_disk *disk, const char *name,
                     const disk_header *header, th_bytes object) {
  char temporary[DISK_NAME];
  int fd = disk_create(disk, name, temporary);
  if (fd < 0) {
    return false;
  }
  bool right = disk_write_bytes(fd, header, sizeof *header) &&
               disk_write_bytes(fd, object.data, object.size);
  int reason = errno;
  right = close(fd) == 0 && right;
  if (right && renameat(disk->folder, temporary, disk->folder, name) == 0) {
    return true;
  }
  reason = right ? errno : reason;
  (void)unlinkat(disk->folder, temporary, 0);
  errno = reason;
  return false;
}

void th_disk_write(th_context *ctx, th_disk *disk, const uint8_t key[32],
                   const char *symbol, th_bytes object) {
  if (disk->folder < 0 || disk->write_error != 0 ||
      object.size > DISK_MAX_OBJECT || strlen(symbol) >= TH_DISK_SYMBOL) {
    return;
  }
  disk_header header = {.version = DISK_VERSION, .size = object.size};
  memcpy(header.magic, disk_magic, sizeof header.magic);
  memcpy(header.key, key, sizeof header.key);
  memcpy(header.symbol, symbol, strlen(symbol));
  disk_digest(&header, object.data, header.digest);
  char name[DISK_NAME];
  disk_name(key, name);
  if (disk_put(disk, name, &header, object)) {
    disk_trim(disk, key);
    return;
  }
  th_disk_stop_writing(ctx, disk, errno);
}

void th_disk_stop_writing(th_context *ctx, th_disk *disk, int error) {
  disk->write_error = error;
  th_warn_once(ctx, "kernel cache write", TH_NOWHERE,
               "kernel cache: nothing more is written: %s", strerror(error));
}
