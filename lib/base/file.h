// Files: read whole by mapping, written so that a reader sees the old text or
// the new one.
#ifndef TH_BASE_FILE_H
#define TH_BASE_FILE_H

#include "base/context.h"

// The pages are private: the caller may write to them, and the file does not
// change.  Something that cannot be mapped (a pipe, a terminal) is read into
// memory instead, up to 4 GiB of it.  When another process shortens the file
// while it is mapped, reading the lost part raises SIGBUS, as with every mapped
// file.
typedef struct th_file {
  char *data; // never NULL once open
  size_t size;
  bool is_mapped;
} th_file;

th_status th_file_map(th_context *ctx, const char *path, th_file *out_file);
// Also for a zeroed th_file.
void th_file_unmap(th_file *file);

// A file under way: bytes go to a temporary name in the same folder, or, where
// `path` is a device or a pipe, straight there.
typedef struct th_file_writer {
  th_context *ctx;
  const char *path; // the caller's
  char *temporary;
  int descriptor;
  bool direct;
} th_file_writer;

th_status th_file_create(th_context *ctx, const char *path,
                         th_file_writer *out_writer);
th_status th_file_append(th_file_writer *writer, const void *data, size_t size);
// Flushes to the disk and takes the final name; on an error nothing is left.
th_status th_file_commit(th_file_writer *writer);
// Removes the temporary file; nothing happens after a commit.
void th_file_abandon(th_file_writer *writer);

// Create, append, commit.
th_status th_file_write(th_context *ctx, const char *path, const void *data,
                        size_t size);

#endif
