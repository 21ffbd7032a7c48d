/*-------------------------------------------------------------------------
 *
 * child.c
 *	  See child.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"

/* A process that was told to end is waited for so often, for 0.1 s. */
#define END_TRIES 100
#define END_STEP_US 1000

void
fc_child_begin(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGURG, SIGXFSZ};
	sigset_t	none;

	(void) setsid();
	for (int s = 1; s < NSIG; s++)
		(void) signal(s, SIG_DFL);
	for (int i = 0; i < lengthof(ignored); i++)
		(void) signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	/* now that none of the server's handlers is there to use them */
	on_exit_reset();
	MyProcPid = getpid();
	MyProc = NULL;
	MyLatch = NULL;
}

bool
fc_child_descriptors(int keep)
{
	DIR		   *d = opendir("/proc/self/fd");
	struct dirent *de;
	int			null;

	if (d == NULL)
		return false;
	while ((de = readdir(d)) != NULL)
	{
		int			fd = (int) strtol(de->d_name, NULL, 10);

		if (de->d_name[0] != '.' && fd != dirfd(d) && fd != keep)
			close(fd);
	}
	closedir(d);
	null = open("/dev/null", O_RDWR);
	if (keep > 2)
		for (int fd = 0; fd <= 2; fd++)
			if (fd != null)
				(void) dup2(null, fd);
	if (null > 2)
		close(null);
	return null >= 0;
}

bool
fc_child_memory(const void *keep)
{
	/*
	 * no stdio: its buffer could be anywhere, the list changes while it is
	 * read
	 */
	static char list[1024 * 1024];
	size_t		n = 0;
	ssize_t		got;
	int			fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && n < sizeof(list) - 1 && (got = read(fd, list + n, sizeof(list) - 1 - n)) > 0)
		n += got;
	if (fd < 0 || n == sizeof(list) - 1)
		return false;
	close(fd);
	for (char *line = list, *next; (next = strchr(line, '\n')) != NULL; line = next + 1)
	{
		char	   *rights;
		unsigned long from = strtoul(line, &rights, 16);
		unsigned long to = *rights == '-' ? strtoul(rights + 1, &rights, 16) : 0;

		if (to <= from || *rights++ != ' ')
			return false;
		if (rights[1] == 'w' && rights[3] == 's' && from != (unsigned long) keep && munmap((void *) from, to - from) != 0)
			return false;
	}
	return true;
}

bool
fc_child_collected(pid_t *process)
{
	for (int i = 0; *process != 0; i++)
	{
		if (waitpid(*process, NULL, WNOHANG) != 0)
			*process = 0;
		else if (i == END_TRIES)
			return false;
		else
			pg_usleep(END_STEP_US);
	}
	return true;
}
