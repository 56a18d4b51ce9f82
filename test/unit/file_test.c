// Files: mapping, reading what cannot be mapped, writing whole or not at all.
#include "base/file.h"

#include "torture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static th_context *context;
static char folder[] = "/tmp/thunder-file.XXXXXX";
static char path[100];

static void file_setup(void) {
  context = th_context_new();
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/f", folder);
}

static void file_teardown(void) {
  th_context_free(context);
  remove(path);
  cr_assert_eq(rmdir(folder), 0, "files were left behind");
}

TestSuite(file, .init = file_setup, .fini = file_teardown);

static void file_expect(const char *want, size_t size) {
  th_file file;
  cr_assert_eq(th_file_map(context, path, &file), TH_OK);
  cr_assert_eq(file.size, size);
  cr_assert_not_null(file.data);
  cr_assert_eq(memcmp(file.data, want, size), 0);
  th_file_unmap(&file);
  th_file_unmap(&file);
}

Test(file, what_is_written_is_mapped) {
  cr_assert_eq(th_file_write(context, path, "hello", 5), TH_OK);
  file_expect("hello", 5);
  cr_assert_eq(th_file_write(context, path, "", 0), TH_OK);
  file_expect("", 0);
  struct stat info;
  mode_t mask = umask(022);
  cr_assert_eq(th_file_write(context, path, "x", 1), TH_OK);
  umask(mask);
  stat(path, &info);
  cr_assert_eq(info.st_mode & 0777, 0644);
}

Test(file, writing_to_the_mapping_leaves_the_file) {
  th_file_write(context, path, "hello", 5);
  th_file file;
  cr_assert_eq(th_file_map(context, path, &file), TH_OK);
  cr_assert(file.is_mapped);
  file.data[0] = 'j';
  th_file_unmap(&file);
  file_expect("hello", 5);
}

Test(file, pipes_are_read_to_their_end) {
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  if (fork() == 0) {
    char block[1000];
    memset(block, 'p', sizeof block);
    for (int i = 0; i < 300; i++) {
      if (write(ends[1], block, sizeof block) < 0) {
        _exit(1);
      }
    }
    _exit(0);
  }
  close(ends[1]);
  char name[40];
  snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
  th_file file;
  cr_assert_eq(th_file_map(context, name, &file), TH_OK);
  cr_assert_eq(file.size, 300000);
  cr_assert(file.data[299999] == 'p' && !file.is_mapped);
  th_file_unmap(&file);
  close(ends[0]);
}

Test(file, errors_name_the_file_and_the_reason) {
  th_file file;
  char want[200];
  cr_assert_eq(th_file_map(context, path, &file), TH_IO);
  snprintf(want, sizeof want, "%s: error: open: No such file or directory",
           path);
  cr_assert_str_eq(th_diagnostic_text(context, 0), want);
  cr_assert_eq(th_file_map(context, folder, &file), TH_IO);
  cr_assert_eq(th_file_write(context, "/nowhere/at/all", "", 0), TH_IO);
  cr_assert_eq(th_file_write(context, folder, "x", 1), TH_IO);
}

Test(file, a_full_disk_leaves_the_old_file) {
  cr_assert_eq(th_file_write(context, path, "old", 3), TH_OK);
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  struct rlimit low = {4096, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &low);
  static char block[10000];
  th_status status = th_file_write(context, path, block, sizeof block);
  setrlimit(RLIMIT_FSIZE, &limit);
  cr_assert_eq(status, TH_IO);
  file_expect("old", 3); // and the folder holds nothing else
}

Test(file, a_pipe_is_written_to_and_stays) {
  struct stat info;
  char got[4] = "";
  cr_assert_eq(mkfifo(path, 0600), 0);
  int reader = open(path, O_RDONLY | O_NONBLOCK);
  cr_assert_eq(th_file_write(context, path, "abc", 3), TH_OK);
  cr_assert_eq(read(reader, got, 3), 3);
  cr_assert_str_eq(got, "abc");
  cr_assert(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
  close(reader);
  cr_assert_eq(th_file_write(context, folder, "abc", 3), TH_IO);
}

Test(file, an_abandoned_file_is_gone) {
  th_file_writer writer;
  cr_assert_eq(th_file_create(context, path, &writer), TH_OK);
  cr_assert_eq(th_file_append(&writer, "half", 4), TH_OK);
  cr_assert_neq(access(path, F_OK), 0);
  th_file_abandon(&writer);
  th_file_abandon(&writer);
}

static th_status file_work(void *user) {
  (void)user;
  TH_TRY(th_file_write(NULL, path, "text", 4));
  th_file file;
  TH_TRY(th_file_map(NULL, path, &file));
  th_file_unmap(&file);
  TH_TRY(th_file_map(NULL, "/proc/self/status", &file));
  th_file_unmap(&file);
  return TH_OK;
}

Test(file, every_allocation_may_fail) { torture(file_work, NULL); }
