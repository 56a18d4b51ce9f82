#include "lowering/cache.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "lowering/cache_disk.h"
#include "llvm/toy_kernel.h"

#include <criterion/criterion.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static th_context *ctx;
static char folder[64];
static atomic_int builds;

static int cache_remove_one(const char *path, const struct stat *facts,
                            int type, struct FTW *walk) {
  (void)facts, (void)type, (void)walk;
  return remove(path);
}

static void cache_setup(void) {
  snprintf(folder, sizeof folder, "/tmp/thunder-cache-XXXXXX");
  cr_assert_not_null(mkdtemp(folder));
  setenv("TH_CACHE_DIR", folder, 1);
  unsetenv("TH_NO_CACHE");
  unsetenv("TH_CACHE_SIZE");
  unsetenv("TH_CPU");
  ctx = th_context_new();
}
static void cache_teardown(void) {
  th_context_free(ctx);
  nftw(folder, cache_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(cache, .init = cache_setup, .fini = cache_teardown);

static void cache_fresh_context(void) {
  th_context_free(ctx);
  cr_assert_eq(th_code_count(), 0, "a context lets go of its kernels");
  ctx = th_context_new();
}

static void cache_key(int number, uint8_t key[32]) {
  th_sha256(&number, sizeof number, key);
}

static th_status cache_build(th_context *own, void *user, const char *symbol,
                             th_bytes *out_object) {
  atomic_fetch_add(&builds, 1);
  return toy_object(own, "host", symbol, *(double *)user, NULL, out_object);
}

// Kernel `number` multiplies by number; returns what it makes of 3.
static float cache_get(th_context *own, int number) {
  uint8_t key[32];
  cache_key(number, key);
  double factor = number;
  th_code *code = NULL;
  cr_assert_eq(th_kernel_cache_get(own, key, "k", cache_build, &factor, &code),
               TH_OK, "%s", toy_errors(own));
  float result = toy_call(th_code_address(code));
  th_code_release(code);
  return result;
}

// The file of kernel `number`.
static const char *cache_path(int number) {
  static char path[256];
  uint8_t key[32];
  char hex[65];
  cache_key(number, key);
  th_sha256_hex(key, hex);
  snprintf(path, sizeof path, "%s/objects/%c/%s", folder, hex[0], hex);
  return path;
}

static bool cache_exists(const char *path) {
  struct stat facts;
  return lstat(path, &facts) == 0;
}

static int cache_files;
static int cache_count_one(const char *path, const struct stat *facts, int type,
                           struct FTW *walk) {
  (void)path, (void)facts, (void)walk;
  cache_files += type == FTW_F;
  return 0;
}
static int cache_count_files(void) {
  cache_files = 0;
  nftw(folder, cache_count_one, 8, FTW_PHYS);
  return cache_files;
}

// ---- the three places ------------------------------------------------------

Test(cache, memory_then_disk) {
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(cache_get(ctx, 5), 15);
  th_kernel_stats stats = th_kernel_stats_get(ctx);
  cr_expect_eq(stats.compiled, 2);
  cr_expect_eq(stats.memory_hits, 1);
  cr_expect_eq(stats.disk_hits, 0);
  cr_expect_gt(stats.build_ns, 0);
  cr_expect_gt(stats.object_bytes, 100);
  cache_fresh_context();
  cr_expect_eq(cache_get(ctx, 5), 15);
  stats = th_kernel_stats_get(ctx);
  cr_expect_eq(stats.compiled, 0);
  cr_expect_eq(stats.disk_hits, 1);
  cr_expect_eq(stats.build_ns, 0);
  cr_expect_eq(atomic_load(&builds), 2);
  cr_expect_eq(th_diagnostic_count(ctx), 0);
}

Test(cache, contexts_share_and_code_outlives_them) {
  th_context *other = th_context_new();
  uint8_t key[32];
  cache_key(2, key);
  double factor = 2;
  th_code *code = NULL;
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_assert_eq(
      th_kernel_cache_get(other, key, "k", cache_build, &factor, &code), TH_OK);
  cr_expect_eq(th_kernel_stats_get(other).memory_hits, 1);
  cr_expect_eq(th_code_count(), 1);
  th_context_free(other);
  cr_expect_eq(cache_get(ctx, 2), 6, "still held by the first");
  cr_expect_eq(atomic_load(&builds), 1);
  th_context_free(ctx);
  ctx = th_context_new();
  cr_expect_eq(toy_call(th_code_address(code)), 6);
  cr_expect_eq(cache_get(ctx, 2), 6, "a second code of the same symbol");
  cr_expect_eq(th_code_count(), 2);
  th_code_release(code);
}

Test(cache, symbols_are_readable_and_their_own) {
  uint8_t key[32];
  double factor = 2;
  th_code *one, *two;
  cache_key(1, key);
  th_kernel_cache_get(ctx, key, "soft max.f32", cache_build, &factor, &one);
  cache_key(2, key);
  th_kernel_cache_get(ctx, key, "soft max.f32", cache_build, &factor, &two);
  cr_expect_eq(strncmp(th_code_symbol(one), "soft_max_f32_", 13), 0);
  cr_expect_str_neq(th_code_symbol(one), th_code_symbol(two));
  th_code_release(one);
  th_code_release(two);
  char longest[200];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  cache_key(3, key);
  cr_assert_eq(
      th_kernel_cache_get(ctx, key, longest, cache_build, &factor, &one),
      TH_OK);
  cr_expect_eq(strlen(th_code_symbol(one)), TH_DISK_SYMBOL - 1);
  th_code_release(one);
  cache_fresh_context();
  cr_assert_eq(
      th_kernel_cache_get(ctx, key, "short", cache_build, &factor, &one),
      TH_OK);
  cr_expect_eq(th_kernel_stats_get(ctx).disk_hits, 1);
  cr_expect_eq(th_code_symbol(one)[0], 'x', "the name on disk holds");
  th_code_release(one);
}

Test(cache, disk_is_off_by_environment_and_by_option) {
  setenv("TH_NO_CACHE", "1", 1);
  cr_expect_eq(cache_get(ctx, 2), 6);
  unsetenv("TH_NO_CACHE");
  cache_fresh_context();
  th_kernel_cache_options options = {.no_disk = true};
  cr_assert_eq(th_kernel_cache_configure(ctx, &options), TH_OK);
  cr_expect_eq(cache_get(ctx, 2), 6);
  cache_fresh_context();
  setenv("TH_CACHE_SIZE", "0", 1);
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(atomic_load(&builds), 3);
  cr_expect_eq(cache_count_files(), 0);
}

// ---- where -----------------------------------------------------------------

Test(cache, folders_by_rank) {
  char place[128];
  unsetenv("TH_CACHE_DIR");
  snprintf(place, sizeof place, "%s/deep/xdg", folder);
  setenv("XDG_CACHE_HOME", place, 1);
  cr_expect_eq(cache_get(ctx, 2), 6);
  snprintf(place, sizeof place, "%s/deep/xdg/thunder/objects", folder);
  cr_expect(cache_exists(place));

  cache_fresh_context();
  unsetenv("XDG_CACHE_HOME");
  snprintf(place, sizeof place, "%s/home", folder);
  setenv("HOME", place, 1);
  cr_expect_eq(cache_get(ctx, 2), 6);
  snprintf(place, sizeof place, "%s/home/.cache/thunder", folder);
  struct stat facts;
  cr_assert_eq(stat(place, &facts), 0);
  cr_expect_eq(facts.st_mode & 07777, 0700);

  cache_fresh_context();
  unsetenv("HOME");
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(th_diagnostic_count(ctx), 0);

  cache_fresh_context();
  snprintf(place, sizeof place, "%s/option", folder);
  th_kernel_cache_options options = {.folder = place};
  cr_assert_eq(th_kernel_cache_configure(ctx, &options), TH_OK);
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect(cache_exists(place));
}

static void cache_expect_one_warning(const char *part) {
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(cache_get(ctx, 3), 9);
  cr_expect_eq(cache_get(ctx, 4), 12);
  cr_assert_eq(th_diagnostic_count(ctx), 1, "%s", toy_errors(ctx));
  cr_expect_eq(th_diagnostic_severity(ctx, 0), TH_WARNING);
  const char *text = th_diagnostic_text(ctx, 0);
  cr_expect(strstr(text, part) != NULL, "%s", text);
}

Test(cache, a_folder_that_others_may_write_to_is_not_used) {
  chmod(folder, 0777);
  cache_expect_one_warning("others may write");
  cr_expect_eq(cache_count_files(), 0);
}

Test(cache, a_folder_of_another_user_is_not_used) {
  if (geteuid() != 0) {
    cr_assert_null(getenv("CI"), "CI runs as root"); // else nobody runs it
    cr_skip_test("needs root");
  }
  cr_assert_eq(chown(folder, 65534, 65534), 0);
  cache_expect_one_warning("another user");
  cr_expect_eq(cache_count_files(), 0);
}

Test(cache, a_folder_that_is_a_file_is_not_used) {
  setenv("TH_CACHE_DIR", "/dev/null", 1);
  cache_expect_one_warning("'/dev/null'");
}

static int cache_give_away(const char *path, const struct stat *facts, int type,
                           struct FTW *walk) {
  (void)facts, (void)type, (void)walk;
  return lchown(path, 65534, 65534);
}

// Mode of all folders inside.
static void cache_chmod_folders(mode_t mode) {
  char path[96];
  snprintf(path, sizeof path, "%s/objects", folder);
  chmod(path, 0700);
  for (const char *digit = "0123456789abcdef"; *digit != 0; digit++) {
    char shard[128];
    snprintf(shard, sizeof shard, "%s/%c", path, *digit);
    chmod(shard, mode);
  }
  chmod(path, mode);
}

Test(cache, a_read_only_folder_costs_the_cache) {
  cr_assert_eq(cache_get(ctx, 9), 27);
  cache_fresh_context();
  bool root = geteuid() == 0; // whom no mode stops
  if (root) {
    cr_assert_eq(nftw(folder, cache_give_away, 8, FTW_PHYS), 0);
    cr_assert_eq(seteuid(65534), 0);
  }
  cache_chmod_folders(0500);
  cr_expect_eq(cache_get(ctx, 9), 27);
  cr_expect_eq(th_kernel_stats_get(ctx).disk_hits, 1, "reading goes on");
  cache_expect_one_warning("nothing more is written");
  cache_chmod_folders(0700);
  if (root) {
    cr_assert_eq(seteuid(0), 0);
  }
}

Test(cache, a_full_disk_costs_the_cache) {
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = {200, 200}; // the header fits, the object does not
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  cache_expect_one_warning("nothing more is written");
  cr_expect_eq(cache_count_files(), 0, "no temporary file is left");
}

Test(cache, sizes_have_units_and_nonsense_is_told) {
  th_disk disk;
  setenv("TH_CACHE_SIZE", "3G", 1);
  th_disk_open(ctx, NULL, 0, &disk);
  cr_expect_eq(disk.limit, UINT64_C(3) << 30);
  th_disk_close(&disk);
  cr_expect_eq(th_diagnostic_count(ctx), 0);
  const char *wrong[] = {
      "much", "-1", "12Q", "99999999999999999999", "18446744073709551615T",
      "1 M"};
  for (size_t i = 0; i < TH_COUNT(wrong); i++) {
    cache_fresh_context();
    setenv("TH_CACHE_SIZE", wrong[i], 1);
    th_disk_open(ctx, NULL, 0, &disk);
    cr_expect_eq(disk.limit, TH_DISK_DEFAULT_LIMIT, "%s", wrong[i]);
    cr_expect_eq(th_diagnostic_count(ctx), 1, "%s", wrong[i]);
    th_disk_close(&disk);
  }
}

// ---- damage ----------------------------------------------------------------

Test(cache, a_flipped_bit_anywhere_is_found) {
  cr_expect_eq(cache_get(ctx, 2), 6);
  const char *path = cache_path(2);
  struct stat facts;
  cr_assert_eq(stat(path, &facts), 0);
  cr_expect_eq(facts.st_mode & 07777, 0600);
  for (off_t at = 0; at < facts.st_size; at += at < 160 ? 7 : 211) {
    int fd = open(path, O_RDWR);
    char byte;
    cr_assert_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    cache_fresh_context();
    cr_expect_eq(cache_get(ctx, 2), 6);
    // Bytes 12..15 are unused and not looked at.
    bool unused = at >= 12 && at < 16;
    cr_expect_eq(th_kernel_stats_get(ctx).disk_hits, unused, "byte %ld",
                 (long)at);
    cr_expect_eq(th_diagnostic_count(ctx), 0);
  }
}

Test(cache, a_truncated_entry_is_found) {
  cr_expect_eq(cache_get(ctx, 2), 6);
  for (off_t size = 0; size < 1000; size += 101) {
    cr_assert_eq(truncate(cache_path(2), size), 0);
    cache_fresh_context();
    cr_expect_eq(cache_get(ctx, 2), 6);
    cr_expect_eq(th_kernel_stats_get(ctx).compiled, 1);
  }
}

Test(cache, an_entry_under_another_name_is_removed) {
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(cache_get(ctx, 3), 9);
  char from[256];
  snprintf(from, sizeof from, "%s", cache_path(2));
  cr_assert_eq(rename(from, cache_path(3)), 0);
  th_disk disk;
  th_disk_open(ctx, NULL, 0, &disk);
  uint8_t key[32];
  char symbol[TH_DISK_SYMBOL];
  th_bytes object;
  cache_key(3, key);
  cr_expect_not(th_disk_read(&disk, key, symbol, &object));
  cr_expect_not(cache_exists(cache_path(3)));
  th_disk_close(&disk);
}

Test(cache, links_pipes_and_files_of_others_are_not_read) {
  cr_expect_eq(cache_get(ctx, 2), 6);
  char real[256];
  snprintf(real, sizeof real, "%s/real", folder);
  cr_assert_eq(rename(cache_path(2), real), 0);
  cr_assert_eq(symlink(real, cache_path(2)), 0);
  cache_fresh_context();
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(th_kernel_stats_get(ctx).disk_hits, 0, "a link");

  unlink(cache_path(2));
  cr_assert_eq(mkfifo(cache_path(2), 0600), 0);
  cache_fresh_context();
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(th_kernel_stats_get(ctx).disk_hits, 0, "a pipe");

  cr_assert_eq(chmod(cache_path(2), 0666), 0);
  cache_fresh_context();
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(th_kernel_stats_get(ctx).disk_hits, 0, "open to all");
}

Test(cache, an_object_that_does_not_link_is_built_anew) {
  th_disk disk;
  th_disk_open(ctx, NULL, 0, &disk);
  uint8_t key[32];
  cache_key(2, key);
  char junk[200] = "junk";
  th_disk_write(ctx, &disk, key, "k", (th_bytes){junk, sizeof junk});
  th_disk_close(&disk);
  cr_expect(cache_exists(cache_path(2)));
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(th_kernel_stats_get(ctx).compiled, 1);
  cr_expect_eq(th_diagnostic_count(ctx), 0);
  cache_fresh_context();
  cr_expect_eq(cache_get(ctx, 2), 6);
  cr_expect_eq(th_kernel_stats_get(ctx).disk_hits, 1);
}

// ---- size ------------------------------------------------------------------

// Keys of one shard, in order.
static void cache_shard_key(int number, uint8_t key[32]) {
  memset(key, 0, 32);
  key[0] = 0x70;
  memcpy(key + 2, &number, sizeof number);
}

static bool cache_on_disk(th_disk *disk, int number) {
  uint8_t key[32];
  char symbol[TH_DISK_SYMBOL];
  th_bytes object;
  cache_shard_key(number, key);
  if (!th_disk_read(disk, key, symbol, &object)) {
    return false;
  }
  th_free(object.data);
  return true;
}

Test(cache, what_was_used_longest_ago_goes_first) {
  enum { OBJECT = 1000, KEPT = 16 };
  static char bytes[OBJECT];
  uint64_t limit = 16 * KEPT * (OBJECT + 152);
  th_disk disk;
  th_disk_open(ctx, NULL, limit, &disk);
  for (int i = 0; i < 3 * KEPT; i++) {
    uint8_t key[32];
    cache_shard_key(i, key);
    th_disk_write(ctx, &disk, key, "k", (th_bytes){bytes, sizeof bytes});
    // The clock of the file system ticks in milliseconds.
    usleep(10000);
    cr_expect(cache_on_disk(&disk, 0), "in use all the time (%d)", i);
  }
  int files = cache_count_files();
  cr_expect_leq(files, KEPT);
  cr_expect_geq(files, KEPT * 3 / 4);
  cr_expect(cache_on_disk(&disk, 3 * KEPT - 1), "the newest");
  cr_expect_not(cache_on_disk(&disk, 1), "the oldest");
  th_disk_close(&disk);
}

Test(cache, an_object_over_the_limit_is_kept_until_the_next) {
  static char bytes[5000];
  th_disk disk;
  th_disk_open(ctx, NULL, 16, &disk);
  for (int i = 0; i < 3; i++) {
    uint8_t key[32];
    cache_shard_key(i, key);
    th_disk_write(ctx, &disk, key, "k", (th_bytes){bytes, sizeof bytes});
    cr_expect(cache_on_disk(&disk, i));
    cr_expect_eq(cache_count_files(), 1);
  }
  th_disk_close(&disk);
}

Test(cache, temporary_files_without_a_writer_go) {
  char old[256], young[256];
  static char bytes[10];
  uint8_t key[32];
  th_disk disk;
  th_disk_open(ctx, NULL, 1 << 20, &disk);
  cache_shard_key(1, key);
  th_disk_write(ctx, &disk, key, "k", (th_bytes){bytes, sizeof bytes});
  snprintf(old, sizeof old, "%s/objects/7/.part-1-1", folder);
  snprintf(young, sizeof young, "%s/objects/7/.part-1-2", folder);
  close(creat(old, 0600));
  close(creat(young, 0600));
  struct timespec times[2] = {{1000, 0}, {1000, 0}};
  utimensat(AT_FDCWD, old, times, 0);
  cache_shard_key(2, key);
  th_disk_write(ctx, &disk, key, "k", (th_bytes){bytes, sizeof bytes});
  cr_expect_not(cache_exists(old));
  cr_expect(cache_exists(young));
  th_disk_close(&disk);
}

Test(cache, a_file_that_another_writes_stays) {
  char path[256];
  static char bytes[10];
  uint8_t key[32];
  th_disk disk;
  th_disk_open(ctx, NULL, 1 << 20, &disk);
  cache_shard_key(1, key);
  th_disk_write(ctx, &disk, key, "k", (th_bytes){bytes, sizeof bytes});
  for (unsigned i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/objects/7/.part-%u-%u", folder,
             (unsigned)getpid(), i);
    close(creat(path, 0600));
  }
  th_disk_write(ctx, &disk, key, "k", (th_bytes){bytes, sizeof bytes});
  cr_expect_eq(cache_count_files(), 5);
  th_disk_close(&disk);
}

// ---- failures --------------------------------------------------------------

static th_status cache_fail(th_context *own, void *user, const char *symbol,
                            th_bytes *out_object) {
  (void)user, (void)out_object;
  return th_error(own, TH_UNSUPPORTED, TH_NOWHERE, "no code for %s", symbol);
}

static th_status cache_exhaust(th_context *own, void *user, const char *symbol,
                               th_bytes *out_object) {
  (void)user, (void)symbol, (void)out_object;
  th_arena_alloc_array(&own->arena, SIZE_MAX / 2, 4);
  return TH_OK;
}

Test(cache, a_build_that_fails_can_be_tried_again) {
  uint8_t key[32];
  cache_key(2, key);
  th_code *code;
  cr_expect_eq(th_kernel_cache_get(ctx, key, "k", cache_fail, NULL, &code),
               TH_UNSUPPORTED);
  cr_expect_eq(th_diagnostic_count(ctx), 1);
  cr_expect_eq(th_kernel_cache_get(ctx, key, "k", cache_exhaust, NULL, &code),
               TH_NO_MEMORY);
  cr_expect_eq(cache_get(ctx, 2), 6);
}

static void cache_fail_each_allocation(void) {
  double factor = 2;
  uint8_t key[32];
  cache_key(2, key);
  for (size_t ordinal = 1;; ordinal++) {
    th_context *own = th_context_new();
    th_code *code = NULL;
    th_alloc_fail_at(ordinal, true);
    th_status status =
        th_kernel_cache_get(own, key, "k", cache_build, &factor, &code);
    size_t made = th_alloc_fail_at(0, false);
    if (status == TH_OK) {
      cr_expect_eq(toy_call(th_code_address(code)), 6);
    } else {
      cr_assert_eq(status, TH_NO_MEMORY);
    }
    th_code_release(code);
    th_context_free(own);
    cr_assert_eq(th_code_count(), 0);
    if (made < ordinal) {
      break;
    }
  }
}

Test(cache, every_allocation_fails_once) {
  setenv("TH_NO_CACHE", "1", 1);
  cache_fail_each_allocation(); // built
  unsetenv("TH_NO_CACHE");
  cr_expect_eq(cache_get(ctx, 2), 6);
  cache_fresh_context();
  cache_fail_each_allocation(); // read
}

// ---- threads and processes -------------------------------------------------

static void *cache_many(void *user) {
  (void)user;
  th_context *own = th_context_new();
  for (int i = 0; i < 20; i++) {
    cr_expect_eq(cache_get(own, i), 3 * i);
  }
  th_context_free(own);
  return NULL;
}

Test(cache, threads_build_each_kernel_once) {
  pthread_t threads[6];
  for (size_t i = 0; i < TH_COUNT(threads); i++) {
    pthread_create(&threads[i], NULL, cache_many, NULL);
  }
  for (size_t i = 0; i < TH_COUNT(threads); i++) {
    pthread_join(threads[i], NULL);
  }
  cr_expect_eq(atomic_load(&builds), 20);
  cr_expect_eq(th_code_count(), 0);
}

static atomic_int cache_gate;

static th_status cache_wait(th_context *own, void *user, const char *symbol,
                            th_bytes *out_object) {
  atomic_store(&cache_gate, 1);
  while (atomic_load(&cache_gate) != 2) {
    usleep(1000);
  }
  return cache_build(own, user, symbol, out_object);
}

static void *cache_slow(void *user) {
  (void)user;
  th_context *own = th_context_new();
  uint8_t key[32];
  cache_key(2, key);
  double factor = 2;
  th_code *code = NULL;
  if (th_kernel_cache_get(own, key, "k", cache_wait, &factor, &code) == TH_OK) {
    th_code_release(code);
  }
  th_context_free(own);
  return NULL;
}

Test(cache, a_child_does_not_wait_for_threads_of_its_parent, .timeout = 60) {
  pthread_t thread;
  pthread_create(&thread, NULL, cache_slow, NULL);
  while (atomic_load(&cache_gate) != 1) {
    usleep(1000);
  }
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(cache_get(ctx, 2) == 6 ? 0 : 1);
  }
  int status = -1;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
  atomic_store(&cache_gate, 2);
  pthread_join(thread, NULL);
  cr_expect_eq(cache_get(ctx, 2), 6);
}

// An object whose symbol is put in its place: fast enough for thousands.
static th_status cache_patch(th_context *own, void *user, const char *symbol,
                             th_bytes *out_object) {
  (void)own;
  const th_bytes *model = user;
  char *copy = th_malloc(model->size);
  memcpy(copy, model->data, model->size);
  char *name = memmem(copy, model->size, "k_aaaaaaaaaaaaaaaa", 18);
  memcpy(name, symbol, 18);
  *out_object = (th_bytes){copy, model->size};
  return TH_OK;
}

Test(cache, a_context_keeps_a_bounded_number, .timeout = 120) {
  setenv("TH_NO_CACHE", "1", 1);
  th_bytes model;
  cr_assert_eq(toy_object(ctx, "host", "k_aaaaaaaaaaaaaaaa", 2, NULL, &model),
               TH_OK);
  for (int i = 0; i < 4200; i++) {
    uint8_t key[32];
    cache_key(i, key);
    th_code *code = NULL;
    cr_assert_eq(th_kernel_cache_get(ctx, key, "k", cache_patch, &model, &code),
                 TH_OK, "%s", toy_errors(ctx));
    th_code_release(code);
  }
  cr_expect_eq(th_code_count(), 4200 - 4096);
  th_free(model.data);
}

// ---- several at once -------------------------------------------------------

enum { CACHE_MANY = 24 };

// Kernels 0, 0, 1, 1, 2, 2, ...
static void cache_requests(th_kernel_request requests[CACHE_MANY],
                           double factors[CACHE_MANY]) {
  for (int i = 0; i < CACHE_MANY; i++) {
    int number = i / 2;
    factors[i] = number;
    requests[i] = (th_kernel_request){
        .label = "k", .build = cache_build, .user = &factors[i]};
    cache_key(number, requests[i].key);
  }
}

static void cache_get_many(int threads) {
  th_kernel_request requests[CACHE_MANY];
  double factors[CACHE_MANY];
  cache_requests(requests, factors);
  cr_assert_eq(th_kernel_cache_get_many(ctx, requests, CACHE_MANY, threads),
               TH_OK, "%s", toy_errors(ctx));
  for (int i = 0; i < CACHE_MANY; i++) {
    int number = i / 2;
    cr_expect_eq(toy_call(th_code_address(requests[i].code)), 3 * number);
    th_code_release(requests[i].code);
  }
}

Test(cache, many_at_once_count_as_one_after_the_other) {
  for (int threads = 0; threads <= 3; threads++) {
    char place[96];
    snprintf(place, sizeof place, "%s/%d", folder, threads);
    setenv("TH_CACHE_DIR", place, 1);
    cache_fresh_context();
    cache_get_many(threads);
    th_kernel_stats stats = th_kernel_stats_get(ctx);
    cr_expect_eq(stats.compiled, CACHE_MANY / 2);
    cr_expect_eq(stats.memory_hits, CACHE_MANY / 2);
    cr_expect_eq(stats.disk_hits, 0);
    cr_expect_eq(th_code_count(), CACHE_MANY / 2, "the context holds them");
    cache_fresh_context();
    cache_get_many(threads);
    stats = th_kernel_stats_get(ctx);
    cr_expect_eq(stats.compiled, 0);
    cr_expect_eq(stats.memory_hits, CACHE_MANY / 2);
    cr_expect_eq(stats.disk_hits, CACHE_MANY / 2);
  }
}

Test(cache, many_threads_warn_as_one_does) {
  char place[96];
  snprintf(place, sizeof place, "%s/objects", folder);
  close(creat(place, 0600)); // no folder: nothing can be written
  for (int threads = 1; threads <= 3; threads += 2) {
    cache_fresh_context();
    cache_get_many(threads);
    cache_expect_one_warning("nothing more is written");
  }
}

Test(cache, one_failure_among_many_is_reported_once) {
  th_kernel_request requests[CACHE_MANY];
  double factors[CACHE_MANY];
  cache_requests(requests, factors);
  requests[CACHE_MANY - 1].build = cache_fail;
  requests[CACHE_MANY - 2].build = cache_fail;
  cr_assert_eq(th_kernel_cache_get_many(ctx, requests, CACHE_MANY, 3),
               TH_UNSUPPORTED);
  cr_expect_eq(th_diagnostic_count(ctx), 1);
  for (int i = 0; i < CACHE_MANY; i++) {
    cr_expect_null(requests[i].code);
  }
  cache_fresh_context();
}
