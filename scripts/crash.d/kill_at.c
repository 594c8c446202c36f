/* kill_at CALL N COMMAND...: runs it, and kills all of it right before its N-th call of that kind, of whichever of
 * its threads. By a seccomp filter that stops at this call alone: strace stops at each call, ten times as slow, and with
 * its own filter (6.1) it sends no signal but at the first one. Exit code: 137 killed, else that of the command. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL(name) { #name, SYS_##name }
static const struct { const char *name; int number; } CALLS[] = {
    CALL(renameat2), CALL(linkat), CALL(symlinkat), CALL(unlinkat), CALL(mkdirat), CALL(write), CALL(pwrite64),
    CALL(fsync), CALL(fdatasync), CALL(ftruncate), CALL(fchmod), CALL(utimensat), CALL(ioctl), CALL(flock), CALL(openat),
#ifdef SYS_open
    CALL(open), CALL(mkdir), CALL(unlink),
#endif
};

static void fail(const char *what) {
    fprintf(stderr, "kill_at: %s: %s\n", what, strerror(errno));
    exit(99);
}

static int number_of(const char *name) {
    for (size_t at = 0; at < sizeof CALLS / sizeof *CALLS; at++)
        if (!strcmp(name, CALLS[at].name)) return CALLS[at].number;
    fprintf(stderr, "kill_at: no call of ours is named %s\n", name);
    exit(99);
}

static void be_traced(int number, char **command) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) fail("ptrace");
    raise(SIGSTOP); /* until the options are set */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) fail("seccomp");
    execvp(*command, command);
    fail(*command);
}

int main(int count, char **words) {
    if (count < 4) return fprintf(stderr, "usage: kill_at CALL N COMMAND...\n"), 99;
    int number = number_of(words[1]);
    long left = atol(words[2]);
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (!child) be_traced(number, words + 3);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) fail("wait for the child");
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, 0, options) || ptrace(PTRACE_CONT, child, 0, 0)) fail("ptrace");
    for (int end = -1;;) {
        pid_t who = waitpid(-1, &status, __WALL);
        if (who < 0) return end; /* nobody is left */
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (who == child) end = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int event = status >> 16, signal = WSTOPSIG(status);
        if (event == PTRACE_EVENT_SECCOMP && --left == 0) kill(child, SIGKILL);
        /* Events and the stop of a new thread are ours; all other signals are theirs. */
        ptrace(PTRACE_CONT, who, 0, event || signal == SIGSTOP ? 0 : signal);
    }
}
