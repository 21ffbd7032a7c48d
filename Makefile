# pg_flashcache: second-level buffer cache on flash
#
#   make            builds for the server of PG_CONFIG
#   make install    into its extension folders (DESTDIR is honoured)
#   ./test.sh       installs what the tests need and runs them all

MODULE_big = pg_flashcache
OBJS = \
	src/attach/attach.o \
	src/attach/data_file.o \
	src/attach/events.o \
	src/attach/shape.o \
	src/attach/smgr_async.o \
	src/attach/smgr_block.o \
	src/attach/smgr_files.o \
	src/attach/smgr_vector.o \
	src/attach/table.o \
	src/bufscan.o \
	src/cache.o \
	src/cache_ahead.o \
	src/cache_fill.o \
	src/cache_pace.o \
	src/cache_scrub.o \
	src/cache_source.o \
	src/checksum.o \
	src/compat.o \
	src/directory.o \
	src/directory_epochs.o \
	src/explain.o \
	src/failpoint.o \
	src/handoff.o \
	src/layout.o \
	src/library.o \
	src/machine.o \
	src/oscache.o \
	src/pagecmp.o \
	src/pg_flashcache.o \
	src/policy.o \
	src/settings.o \
	src/sql_functions.o \
	src/stats.o \
	src/stats_kind.o \
	src/store.o \
	src/store_mount.o \
	src/store_place.o \
	src/store_process.o \
	src/store_space.o \
	src/store_uring.o \
	src/writer.o \
	src/writer_scrub.o
PGFILEDESC = "pg_flashcache - second-level buffer cache on flash"

EXTENSION = pg_flashcache
DATA = sql/pg_flashcache--1.0.sql

# Callbacks have arguments they don't need, and PostgreSQL's own headers
# compare signed with unsigned and leave fields of initialisers out.
PG_CFLAGS = -std=gnu11 -Wall -Wextra -Werror -fvisibility=hidden \
	-Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
	-Wno-declaration-after-statement

# io_uring, by liburing (Debian: liburing-dev); the cache is off by default where it was built without. Linked in, and
# hidden: a server must start on a machine without it, and may have a copy of its own.
ifeq ($(shell echo 'int main(void) { return 0; }' | $(CC) -include liburing.h -x c - -o /dev/null -l:liburing.a 2>/dev/null && echo yes),yes)
PG_CPPFLAGS += -DFC_USE_LIBURING
SHLIB_LINK += -l:liburing.a -Wl,--exclude-libs,liburing.a
else
WITHOUT_LIBURING = building without liburing: the cache will be off unless pg_flashcache.io_timeout is 0 (install liburing-dev)
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
EXTRA_CLEAN = .built-for
include $(PGXS)

# every header is a prerequisite of every object: the tree is small
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h src/attach/*.h) .built-for

# The server and the flags (its folders are among them) that the objects are for. Written only when they are others
# than last time; all objects are built anew then.
.built-for: export BUILT_FOR = $(shell $(PG_CONFIG) --version) $(CC) $(CFLAGS) $(CPPFLAGS) $(BITCODE_CFLAGS) $(LDFLAGS) $(SHLIB_LINK)
.built-for: FORCE
	@printf '%s\n' "$$BUILT_FOR" | cmp -s - $@ || { $(if $(WITHOUT_LIBURING),echo '$(WITHOUT_LIBURING)';) printf '%s\n' "$$BUILT_FOR" >$@; }

.PHONY: FORCE
