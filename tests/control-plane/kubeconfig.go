package main

import (
	"encoding/base64"
	"fmt"
)

// The users with a client certificate. Only the administrator and our own daemon are in
// system:masters, which skips RBAC and fair queuing; all others are ordinary users.
const (
	userAdmin     = "admin"
	userPlain     = "plain"
	userDaemon    = "system:control-plane"
	userKwok      = "system:kwok"
	userManager   = "system:kube-controller-manager"
	userScheduler = "system:kube-scheduler"
)

var users = []struct {
	user   string
	groups []string
}{
	{userAdmin, []string{"system:masters"}},
	{userDaemon, []string{"system:masters"}},
	{userPlain, nil},
	{userKwok, nil},
	{userManager, nil},
	{userScheduler, nil},
}

// kubeconfig returns the path of a user's kubeconfig: those for human users are at the top of DIR.
func (in *instance) kubeconfig(user string) string {
	switch user {
	case userAdmin:
		return in.path("kubeconfig")
	case userPlain:
		return in.path("plain.kubeconfig")
	}
	return in.pki(user[len("system:"):] + ".kubeconfig")
}

// kubeconfigFor embeds everything, so that the file may be copied elsewhere and still work.
func kubeconfigFor(user, server string, ca []byte, client pair) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: hotshoe
contexts:
- name: hotshoe
  context: {cluster: hotshoe, user: %q}
clusters:
- name: hotshoe
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %q
  user:
    client-certificate-data: %s
    client-key-data: %s
`, user, server, encode(ca), user, encode(client.cert), encode(client.key))
}
