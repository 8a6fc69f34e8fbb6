package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// probe asks a component whether it is ready. Each answers over TLS with a certificate of ours.
func (in *instance) probe(name string) func(context.Context) error {
	ca, path, scheme := in.path("ca.crt"), "/readyz", "https"
	switch name {
	case etcd:
		ca, path = in.pki("etcd-ca.crt"), "/health"
	case kubeControllerManager:
		path = "/healthz"
	case kwok:
		path, scheme = "/healthz", "http"
	}
	url := scheme + "://" + address(in.Ports[name]) + path
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	authorities, err := os.ReadFile(ca)
	if err == nil {
		config.RootCAs.AppendCertsFromPEM(authorities)
	}
	var client tls.Certificate
	switch {
	case err != nil:
	case name == etcd:
		client, err = tls.LoadX509KeyPair(in.pki("etcd-client.crt"), in.pki("etcd-client.key"))
		config.Certificates = []tls.Certificate{client}
	case name == kubeAPIServer:
		// As the daemon's user, whose requests are not in the audit log.
		var self *rest.Config
		if self, err = clientcmd.BuildConfigFromFlags("", in.kubeconfig(userDaemon)); err == nil {
			client, err = tls.X509KeyPair(self.CertData, self.KeyData)
			config.Certificates = []tls.Certificate{client}
		}
	}
	failed := err
	// A new connection each time: one kept alive could belong to the process that just ended.
	caller := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		if failed != nil {
			return failed
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := caller.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
		}
		return nil
	}
}
