// The newest few things that a call site made for sets of sizes.
//
// An entry is the first member of what is kept.  It is freed when it is out of
// the table and nobody uses it any more.
#ifndef TH_EXEC_ONEDNN_TABLE_H
#define TH_EXEC_ONEDNN_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TH_ONEDNN_KEPT = 16 };

typedef struct th_onednn_entry {
  const int64_t *key; // the entry's own memory
  uint32_t key_size;
  uint64_t used; // for the LRU
  uint32_t users;
  bool retired; // out of the table: the last user frees it
} th_onednn_entry;

// All zero but `release` is an empty table whose lock is to be made.
typedef struct th_onednn_table {
  pthread_mutex_t lock;
  th_onednn_entry *items[TH_ONEDNN_KEPT];
  uint64_t clock;
  void (*release)(th_onednn_entry *entry);
} th_onednn_table;

void th_onednn_table_init(th_onednn_table *table,
                          void (*release)(th_onednn_entry *entry));
void th_onednn_table_deinit(th_onednn_table *table);

// The entry with the key of `wanted`, in use; NULL: there is none.
th_onednn_entry *th_onednn_table_find(th_onednn_table *table,
                                      const th_onednn_entry *wanted);
// Keeps the entry, which is in use, in place of the oldest.
void th_onednn_table_keep(th_onednn_table *table, th_onednn_entry *entry);
// The end of a use.
void th_onednn_table_put(th_onednn_table *table, th_onednn_entry *entry);

#endif
