// Files through POSIX calls.
#include "base/file.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_STREAM_MAX ((size_t)4 << 30) // a power of two times 64 KiB

static th_status file_error(th_context *ctx, const char *path,
                            const char *what) {
  return th_error(ctx, errno == ENOMEM ? TH_NO_MEMORY : TH_IO,
                  (th_loc){.file = path}, "%s: %s", what, strerror(errno));
}

// Everything up to the end of the stream.
static th_status file_read_all(th_context *ctx, int descriptor,
                               const char *path, th_file *out_file) {
  char *data = NULL;
  size_t size = 0;
  size_t cap = 0;
  for (;;) {
    if (size == FILE_STREAM_MAX) {
      th_free(data);
      return th_error(ctx, TH_IO, (th_loc){.file = path},
                      "more than 4 GiB without an end, and no regular file");
    }
    if (size == cap) {
      cap = cap ? cap * 2 : 65536;
      char *more = th_realloc(data, cap);
      if (!more) {
        th_free(data);
        return th_error(ctx, TH_NO_MEMORY, (th_loc){.file = path},
                        "out of memory after %zu bytes", size);
      }
      data = more;
    }
    ssize_t got = read(descriptor, data + size, cap - size);
    if (got == 0) {
      *out_file = (th_file){.data = data, .size = size};
      return TH_OK;
    }
    if (got < 0 && errno != EINTR) {
      th_status status = file_error(ctx, path, "read");
      th_free(data);
      return status;
    }
    size += got > 0 ? (size_t)got : 0;
  }
}

static th_status file_map_open(th_context *ctx, int descriptor,
                               const char *path, th_file *out_file) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) {
    return file_error(ctx, path, "stat");
  }
  // An empty file cannot be mapped; files in /proc say that they are empty.
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    return file_read_all(ctx, descriptor, path, out_file);
  }
  size_t size = (size_t)info.st_size;
  void *data = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  if (data == MAP_FAILED) {
    return file_error(ctx, path, "map");
  }
  *out_file = (th_file){.data = data, .size = size, .is_mapped = true};
  return TH_OK;
}

th_status th_file_map(th_context *ctx, const char *path, th_file *out_file) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return file_error(ctx, path, "open");
  }
  th_status status = file_map_open(ctx, descriptor, path, out_file);
  close(descriptor);
  return status;
}

void th_file_unmap(th_file *file) {
  if (file->is_mapped) {
    munmap(file->data, file->size);
  } else {
    th_free(file->data);
  }
  *file = (th_file){0};
}

// A new file beside `path`, named so that no other process or thread takes the
// same name; mkstemp would make it private, and there is no safe way to ask
// for the mode that it should have.
static int file_create_beside(const char *path, char *temporary, size_t size) {
  static atomic_uint serial;
  int descriptor;
  do {
    snprintf(temporary, size, "%s.%ld.%u.tmp", path, (long)getpid(),
             atomic_fetch_add(&serial, 1));
    descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  return descriptor;
}

// Devices and pipes are written to: a file would take their place.
static bool file_is_special(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

th_status th_file_create(th_context *ctx, const char *path,
                         th_file_writer *out_writer) {
  bool direct = file_is_special(path);
  size_t size = strlen(path) + 40;
  char *temporary = th_malloc(size);
  if (!temporary) {
    return th_error(ctx, TH_NO_MEMORY, (th_loc){.file = path}, "out of memory");
  }
  int descriptor = direct ? open(path, O_WRONLY | O_CLOEXEC)
                          : file_create_beside(path, temporary, size);
  if (descriptor < 0) {
    th_status status = file_error(ctx, path, direct ? "open" : "create");
    th_free(temporary);
    return status;
  }
  *out_writer = (th_file_writer){.ctx = ctx,
                                 .path = path,
                                 .temporary = temporary,
                                 .descriptor = descriptor,
                                 .direct = direct};
  return TH_OK;
}

th_status th_file_append(th_file_writer *writer, const void *data,
                         size_t size) {
  const char *at = data;
  while (size > 0) {
    ssize_t put = write(writer->descriptor, at, size);
    if (put < 0 && errno != EINTR) {
      return file_error(writer->ctx, writer->path, "write");
    }
    at += put > 0 ? put : 0;
    size -= put > 0 ? (size_t)put : 0;
  }
  return TH_OK;
}

th_status th_file_commit(th_file_writer *writer) {
  th_status status = TH_OK;
  if (writer->direct) {
    th_file_abandon(writer); // all is written
    return TH_OK;
  }
  if (fsync(writer->descriptor) != 0) {
    status = file_error(writer->ctx, writer->path, "flush");
  } else if (rename(writer->temporary, writer->path) != 0) {
    status = file_error(writer->ctx, writer->path, "rename");
  }
  if (status != TH_OK) {
    th_file_abandon(writer);
    return status;
  }
  close(writer->descriptor);
  th_free(writer->temporary);
  writer->temporary = NULL;
  return TH_OK;
}

void th_file_abandon(th_file_writer *writer) {
  if (writer->temporary) {
    close(writer->descriptor);
    if (!writer->direct) {
      unlink(writer->temporary);
    }
    th_free(writer->temporary);
    writer->temporary = NULL;
  }
}

th_status th_file_write(th_context *ctx, const char *path, const void *data,
                        size_t size) {
  th_file_writer writer;
  TH_TRY(th_file_create(ctx, path, &writer));
  th_status status = th_file_append(&writer, data, size);
  if (status != TH_OK) {
    th_file_abandon(&writer);
    return status;
  }
  return th_file_commit(&writer);
}
