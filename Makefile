# pg_flashcache: second-level buffer cache on flash
#
#   make            builds for the server of PG_CONFIG
#   make install    into its extension folders (DESTDIR is honoured)
#   make installcheck   tests what is installed, on a running server of yours
#                       that has test/installcheck.conf in its configuration
#   make dist       a tarball of the commit that is checked out
#   ./test.sh       installs what the tests need and runs them all

MODULE_big = pg_flashcache
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
PGFILEDESC = "pg_flashcache - second-level buffer cache on flash"

EXTENSION = pg_flashcache
DATA = sql/pg_flashcache--1.0.sql sql/pg_flashcache--1.0--1.1.sql

# Callbacks have arguments they don't need, and PostgreSQL's own headers
# compare signed with unsigned and leave fields of initialisers out.
PG_CFLAGS = -std=gnu11 -Wall -Wextra -fvisibility=hidden \
	-Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
	-Wno-declaration-after-statement

# Headers of ours are named by their path below src/.
PG_CPPFLAGS = -iquote src

# io_uring, by liburing (Debian: liburing-dev); the cache is off by default where it was built without. Linked in, and
# hidden: a server must start on a machine without it, and may have a copy of its own. Where a distribution has only the
# shared library, make LIBURING=-luring.
LIBURING = -l:liburing.a
ifeq ($(shell echo 'int main(void) { return 0; }' | $(CC) -include liburing.h -x c - -o /dev/null $(LIBURING) 2>/dev/null && echo yes),yes)
PG_CPPFLAGS += -DFC_USE_LIBURING
SHLIB_LINK += $(LIBURING) -Wl,--exclude-libs,liburing.a
else
WITHOUT_LIBURING = building without liburing: the cache will be off unless pg_flashcache.io_timeout is 0 (install liburing-dev)
endif

# Those of our tests that need neither pause points nor a server of their own.
REGRESS = 01_views 03_search_path 04_settings 05_counters 06_session
REGRESS_OPTS = --inputdir=$(srcdir)/test/regress
ISOLATION = read-write
ISOLATION_OPTS = --inputdir=$(srcdir)/test/isolation
ENCODING = UTF8
NO_LOCALE = 1

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
EXTRA_CLEAN = .built-for
include $(PGXS)

# every header is a prerequisite of every object: the tree is small
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h src/*/*.h) .built-for

# The server and the flags (its folders are among them) that the objects are for. Written only when they are others
# than last time; all objects are built anew then.
.built-for: export BUILT_FOR = $(shell $(PG_CONFIG) --version) $(CC) $(CFLAGS) $(CPPFLAGS) $(BITCODE_CFLAGS) $(LDFLAGS) $(SHLIB_LINK)
.built-for: FORCE
	@printf '%s\n' "$$BUILT_FOR" | cmp -s - $@ || { $(if $(WITHOUT_LIBURING),echo '$(WITHOUT_LIBURING)';) printf '%s\n' "$$BUILT_FOR" >$@; }

installcheck: installcheck-server

installcheck-server:
	@$(bindir)/psql -X -At -d postgres -c "SELECT setting ~ 'pg_flashcache' FROM pg_settings WHERE name = 'shared_preload_libraries'" | grep -qx t || { \
	  echo 'make installcheck needs a running server that has preloaded pg_flashcache: see test/installcheck.conf' >&2; exit 1; }

VERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(srcdir)/pg_flashcache.control)
DIST = pg_flashcache-$(VERSION)

dist:
	@git -C $(srcdir) rev-parse --git-dir >/dev/null 2>&1 || { \
	  echo 'make dist makes a tarball of a commit: run it in a git checkout' >&2; exit 1; }
	git -C $(srcdir) archive --format=tar.gz --prefix=$(DIST)/ --output=$(CURDIR)/$(DIST).tar.gz HEAD || { rm -f $(DIST).tar.gz; exit 1; }

.PHONY: FORCE installcheck-server dist
