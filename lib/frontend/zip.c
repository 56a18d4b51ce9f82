// Zip by minizip, which reads the mapped bytes through the functions below.
// Local headers may hold no sizes (PyTorch writes them behind the data), so
// all facts are the central directory's; only where the data begins is asked
// of minizip, which reads the local header for it.
#include "frontend/zip.h"

#include <minizip/unzip.h>

#include <stdio.h>
#include <string.h>

enum {
  ZIP_NAME = 1024, // longest name, with its zero
  ZIP_UNPACK = 32, // times the size of the file, plus
  ZIP_UNPACK_MORE = 1 << 20,
};

// ---- minizip's view of the bytes -------------------------------------------

typedef struct zip_stream {
  const char *data;
  uint64_t size, at;
} zip_stream;

static voidpf zip_stream_open(voidpf opaque, const void *name, int mode) {
  (void)name;
  (void)mode;
  return opaque;
}

static uLong zip_stream_read(voidpf opaque, voidpf stream, void *to,
                             uLong size) {
  (void)opaque;
  zip_stream *s = stream;
  uint64_t left = s->size - s->at;
  uLong count = size < left ? size : (uLong)left;
  memcpy(to, s->data + s->at, count);
  s->at += count;
  return count;
}

static ZPOS64_T zip_stream_tell(voidpf opaque, voidpf stream) {
  (void)opaque;
  return ((zip_stream *)stream)->at;
}

static long zip_stream_seek(voidpf opaque, voidpf stream, ZPOS64_T offset,
                            int origin) {
  (void)opaque;
  zip_stream *s = stream;
  uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR   ? s->at
                  : origin == ZLIB_FILEFUNC_SEEK_END ? s->size
                                                     : 0;
  uint64_t at = base + offset;
  if (at > s->size) {
    return -1;
  }
  s->at = at;
  return 0;
}

static int zip_stream_close(voidpf opaque, voidpf stream) {
  (void)opaque;
  (void)stream;
  return 0;
}

static unzFile zip_minizip(zip_stream *stream) {
  zlib_filefunc64_def functions = {
      .zopen64_file = zip_stream_open,
      .zread_file = zip_stream_read,
      .ztell64_file = zip_stream_tell,
      .zseek64_file = zip_stream_seek,
      .zclose_file = zip_stream_close,
      .zerror_file = zip_stream_close,
      .opaque = stream,
  };
  return unzOpen2_64("", &functions);
}

// ---- the central directory -------------------------------------------------

static th_status zip_error(th_zip *zip, const char *problem) {
  return th_error(zip->ctx, TH_PARSE, (th_loc){.file = zip->name}, "%s",
                  problem);
}

static th_status zip_entry_error(th_zip *zip, const char *entry,
                                 const char *problem) {
  return th_error(zip->ctx, TH_PARSE, (th_loc){.file = zip->name},
                  "entry '%s': %s", entry, problem);
}

// Where the data of the current entry begins; 0: not to be found.
static uint64_t zip_data_offset(unzFile file) {
  if (unzOpenCurrentFile2(file, NULL, NULL, 1) != UNZ_OK) {
    return 0;
  }
  uint64_t offset = unzGetCurrentFileZStreamPos64(file);
  unzCloseCurrentFile(file);
  return offset;
}

static th_status zip_add(th_zip *zip, unzFile file) {
  char name[ZIP_NAME];
  unz_file_info64 info;
  if (unzGetCurrentFileInfo64(file, &info, name, sizeof name, NULL, 0, NULL,
                              0) != UNZ_OK) {
    return zip_error(zip, "the directory of the zip file is damaged");
  }
  if (info.size_filename >= sizeof name || strlen(name) != info.size_filename) {
    return zip_error(zip, "an entry's name is too long or holds a zero byte");
  }
  if (th_map_get(&zip->by_name, name)) {
    return zip_entry_error(zip, name, "occurs twice");
  }
  if (info.flag & 1) {
    return zip_entry_error(zip, name, "is encrypted");
  }
  uint64_t offset = zip_data_offset(file);
  if (offset == 0 || offset > zip->size ||
      info.compressed_size > zip->size - offset) {
    return zip_entry_error(zip, name, "lies outside the file");
  }
  bool stored = info.compression_method == 0;
  if (stored && info.compressed_size != info.uncompressed_size) {
    return zip_entry_error(zip, name, "is stored with two sizes");
  }
  unz64_file_pos pos;
  unzGetFilePos64(file, &pos);
  TH_PUSH(zip->arena, zip->entries, zip->count, zip->cap) = (th_zip_entry){
      .name = th_arena_strdup(zip->arena, name),
      .size = info.uncompressed_size,
      .data = stored ? zip->data + offset : NULL,
      .offset = pos.pos_in_zip_directory,
      .number = pos.num_of_file,
  };
  // An index, since the array moves; + 1, since NULL means absent.
  th_map_put(&zip->by_name, name, (void *)(uintptr_t)zip->count);
  return TH_OK;
}

typedef struct zip_job {
  th_zip *zip;
  unzFile file;
  const th_zip_entry *entry;
  char *to;
} zip_job;

static th_status zip_add_all(void *arg) {
  zip_job *job = arg;
  for (int rc = unzGoToFirstFile(job->file); rc != UNZ_END_OF_LIST_OF_FILE;
       rc = unzGoToNextFile(job->file)) {
    if (rc != UNZ_OK) {
      return zip_error(job->zip, "the directory of the zip file is damaged");
    }
    TH_TRY(zip_add(job->zip, job->file));
  }
  return TH_OK;
}

th_status th_zip_open(th_context *ctx, th_arena *arena, const char *name,
                      char *data, size_t size, th_zip *out_zip) {
  *out_zip = (th_zip){
      .ctx = ctx, .arena = arena, .name = name, .data = data, .size = size};
  th_map_init(&out_zip->by_name, arena);
  zip_stream stream = {.data = data, .size = size};
  unzFile file = zip_minizip(&stream);
  if (!file) {
    return zip_error(out_zip, "not a zip file, or a truncated one");
  }
  zip_job job = {.zip = out_zip, .file = file};
  th_status status = th_protect(&ctx->unwind, zip_add_all, &job);
  unzClose(file);
  return status;
}

const th_zip_entry *th_zip_find(const th_zip *zip, const char *name) {
  uintptr_t index = (uintptr_t)th_map_get(&zip->by_name, name);
  return index ? &zip->entries[index - 1] : NULL;
}

// ---- deflated entries ------------------------------------------------------

static th_status zip_unpack(zip_job *job) {
  th_zip *zip = job->zip;
  const th_zip_entry *entry = job->entry;
  unz64_file_pos pos = {entry->offset, entry->number};
  if (unzGoToFilePos64(job->file, &pos) != UNZ_OK ||
      unzOpenCurrentFile(job->file) != UNZ_OK) {
    return zip_entry_error(zip, entry->name, "cannot be unpacked");
  }
  uint64_t done = 0;
  while (done < entry->size) {
    uint64_t left = entry->size - done;
    unsigned piece = left < 1 << 20 ? (unsigned)left : 1u << 20;
    int got = unzReadCurrentFile(job->file, job->to + done, piece);
    if (got <= 0) {
      break;
    }
    done += (uint64_t)got;
  }
  bool is_whole = unzCloseCurrentFile(job->file) == UNZ_OK;
  return done == entry->size && is_whole
             ? TH_OK
             : zip_entry_error(zip, entry->name, "is damaged");
}

th_status th_zip_read(th_zip *zip, const th_zip_entry *entry, char **out_data) {
  if (entry->data) {
    *out_data = entry->data;
    return TH_OK;
  }
  uint64_t limit = (uint64_t)zip->size * ZIP_UNPACK + ZIP_UNPACK_MORE;
  if (entry->size > limit || zip->unpacked > limit - entry->size) {
    return zip_entry_error(zip, entry->name, "unpacks to too many bytes");
  }
  zip->unpacked += entry->size;
  zip_job job = {.zip = zip, .entry = entry};
  job.to = th_arena_alloc(zip->arena, entry->size + 1);
  zip_stream stream = {.data = zip->data, .size = zip->size};
  job.file = zip_minizip(&stream);
  if (!job.file) {
    return zip_error(zip, "the zip file cannot be opened again");
  }
  th_status status = zip_unpack(&job);
  unzClose(job.file);
  *out_data = job.to;
  return status;
}
