package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs certificates. Keys are ECDSA P-256: eight of them take milliseconds, where RSA
// would be a fair part of the start.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	certPEM     []byte
}

// pair is a certificate with its key, both as PEM (the key as PKCS #8, which every client reads).
type pair struct{ cert, key []byte }

const validity = 10 * 365 * 24 * time.Hour

func newAuthority(name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certPEM, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(certPEM)
	certificate, err := x509.ParseCertificate(block.Bytes)
	return &authority{certificate, key, certPEM}, err
}

// server issues a serving certificate for loopback and the names an in-cluster client uses.
func (a *authority) server(names ...string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, firstServiceIP},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		// etcd dials itself through its gateway with its serving certificate.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// client issues a certificate that authenticates a user, and its groups, to the API server.
func (a *authority) client(user string, groups ...string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	cert, err := sign(template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert, keyPEM(key)}, nil
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // clocks that were just set back
	template.NotAfter = template.NotBefore.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func keyPEM(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // a P-256 key that was just generated always has a PKCS #8 form
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// writeCertificates fills DIR/pki and the kubeconfigs. etcd has an authority of its own: a client
// with a certificate of the cluster must not be able to bypass the API server.
func (in *instance) writeCertificates(server string) error {
	cluster, err := newAuthority("hotshoe-control-plane")
	if err != nil {
		return err
	}
	store, err := newAuthority("hotshoe-control-plane-etcd")
	if err != nil {
		return err
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&account.PublicKey)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		in.path("ca.crt"): cluster.certPEM,
		in.pki("ca.key"):  keyPEM(cluster.key), in.pki("etcd-ca.crt"): store.certPEM,
		in.pki("service-account.key"): keyPEM(account),
		in.pki("service-account.pub"): pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	}
	pairs := map[string]func() (pair, error){
		"etcd":        func() (pair, error) { return store.server("localhost") },
		"etcd-client": func() (pair, error) { return store.client("kube-apiserver") },
		"component":   func() (pair, error) { return cluster.server("localhost") },
		"kube-apiserver": func() (pair, error) {
			return cluster.server("kubernetes.default.svc", "kubernetes", "kubernetes.default",
				"kubernetes.default.svc.cluster.local", "localhost")
		},
	}
	for name, issue := range pairs {
		issued, err := issue()
		if err != nil {
			return err
		}
		files[in.pki(name+".crt")], files[in.pki(name+".key")] = issued.cert, issued.key
	}
	for _, user := range users {
		issued, err := cluster.client(user.user, user.groups...)
		if err != nil {
			return err
		}
		files[in.kubeconfig(user.user)] = kubeconfigFor(user.user, server, cluster.certPEM, issued)
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
