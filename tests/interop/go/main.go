// Scenarios of Go clients against a broker: franz-go and sarama, unchanged. They print each check that passed.
package main

import (
	"fmt"
	"os"
)

func checked(what string) { fmt.Println("checked: " + what) }

func must(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func equal[T comparable](expected, found T, what string) {
	if expected != found {
		fmt.Fprintf(os.Stderr, "%s: expected %v, found %v\n", what, expected, found)
		os.Exit(1)
	}
	checked(what)
}

func main() {
	bootstrap, name := os.Args[2], os.Args[3]
	switch os.Args[1] {
	case "franz":
		franz(bootstrap, name)
	case "sarama":
		saramaAll(bootstrap, name)
	}
	fmt.Println("done")
}
