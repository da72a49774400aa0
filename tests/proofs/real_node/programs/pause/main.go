// The first process of every Pod: it holds the Pod's namespaces, and buries whoever dies there.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for caught := range signals {
		if caught != syscall.SIGCHLD {
			return
		}
		bury()
	}
}

// One signal may stand for several deaths.
func bury() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}
