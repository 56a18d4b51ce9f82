// Objects on disk: the lower half of cache.h.
//
//   <folder>/objects/<first digit of the key>/<64 digits of the key>
//
// The folder is $TH_CACHE_DIR, $XDG_CACHE_HOME/thunder or ~/.cache/thunder.
// What lies in it is executed, so it must belong to this user and be writable
// by no one else; each file has a checksum and the key inside.  A file that is
// damaged, or is not what its name says, is removed and counts as absent.
//
// Nothing here fails: without a folder, with a full disk or a read-only one
// there is a warning, given once, and the program compiles what it needs.
// Processes may share a folder: files appear under their final name whole.
//
// Size: $TH_CACHE_SIZE bytes ("512M"; the default; 0 turns the cache off).
// Each of the 16 folders keeps its share by removing what was used longest ago;
// a large cache looks at one in eight writes, so it may grow a little over.
#ifndef TH_LOWERING_CACHE_DISK_H
#define TH_LOWERING_CACHE_DISK_H

#include "lowering/codegen.h"

#define TH_DISK_SYMBOL 64 // bytes of a symbol, with its NUL
#define TH_DISK_DEFAULT_LIMIT (UINT64_C(512) << 20)

typedef struct th_disk {
  int folder;      // descriptor; -1: not used
  int write_error; // of errno; 0: none, else nothing more is written
  uint64_t limit;  // bytes
} th_disk;

// `folder` NULL and `limit` 0 take the environment's.  th_disk_close also for
// one that did not open.
void th_disk_open(th_context *ctx, const char *folder, uint64_t limit,
                  th_disk *out_disk);
void th_disk_close(th_disk *disk);

// True when the object was there; the caller frees out_object->data.
bool th_disk_read(th_disk *disk, const uint8_t key[32],
                  char out_symbol[TH_DISK_SYMBOL], th_bytes *out_object);
// Is there a file for this key, sound or not?
bool th_disk_has(const th_disk *disk, const uint8_t key[32]);
void th_disk_write(th_context *ctx, th_disk *disk, const uint8_t key[32],
                   const char *symbol, th_bytes object);
// Warns, given once, that a write did not succeed; there are no more.
void th_disk_stop_writing(th_context *ctx, th_disk *disk, int error);
// Removes an entry whose object could not be used.
void th_disk_remove(th_disk *disk, const uint8_t key[32]);

#endif
