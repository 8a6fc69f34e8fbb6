package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// The hostpath provisioner creates a folder for every volume (always empty: no container runs here)
// at this fixed place, shared by all instances. So each instance records which are its own.
var hostPathVolume = regexp.MustCompile(`^/tmp/hostpath_pv/[0-9a-f-]{36}$`)

// noteVolumes writes the folder of every volume that appears to DIR/state/volumes until ctx ends.
// It uses a file, because `down` must find them after the daemon was killed.
func (in *instance) noteVolumes(ctx context.Context, client kubernetes.Interface) error {
	file, err := os.OpenFile(in.path("state", "volumes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	volumes := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "persistentvolumes", metav1.NamespaceAll, fields.Everything())
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: volumes, ObjectType: &corev1.PersistentVolume{}, ResyncPeriod: 0 * time.Second,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			if volume, ok := object.(*corev1.PersistentVolume); ok && volume.Spec.HostPath != nil {
				fmt.Fprintln(file, volume.Spec.HostPath.Path)
			}
		}},
	})
	go func() {
		defer file.Close()
		controller.RunWithContext(ctx)
	}()
	return nil
}

func (in *instance) removeVolumes() {
	file, err := os.Open(in.path("state", "volumes"))
	if err != nil {
		return
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// A volume may be made by hand with any path, so only the provisioner's own are removed.
		if hostPathVolume.MatchString(lines.Text()) {
			os.RemoveAll(lines.Text())
		}
	}
	os.Remove("/tmp/hostpath_pv") // stays while another instance has volumes in it
}
