// Command bundle-validator runs the validators of the Operator Framework on a bundle, as `operator-sdk bundle validate`
// does, and what the catalog's tool (opm) checks of its files.
//
//	bundle-validator DIR             prints what is wrong with a bundle; exit code 1: an error
//	bundle-validator --definitions   prints the definitions of ClusterServiceVersion and OperatorGroup
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The kinds that a bundle of the format registry+v1 may have, as in pkg/lib/bundle/supported_resources.go of
// github.com/operator-framework/operator-registry, without those of OpenShift's console.
var kinds = []string{
	"ClusterRole", "ClusterRoleBinding", "ClusterServiceVersion", "ConfigMap", "CustomResourceDefinition",
	"NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "PriorityClass", "PrometheusRule", "Role", "RoleBinding",
	"Secret", "Service", "ServiceAccount", "ServiceMonitor", "VerticalPodAutoscaler",
}

// What every bundle says of itself; where nothing is expected, any value.
var annotations = map[string]string{
	"mediatype": "registry+v1", "manifests": "manifests/", "metadata": "metadata/", "package": "", "channels": "",
}

func main() {
	if len(os.Args) != 2 {
		fail(2, errors.New("usage: bundle-validator DIR | --definitions"))
	}
	if os.Args[1] == "--definitions" {
		for _, definition := range []any{crds.ClusterServiceVersion(), crds.OperatorGroup()} {
			text, err := yaml.Marshal(definition)
			if err != nil {
				fail(2, err)
			}
			fmt.Printf("---\n%s", text)
		}
		return
	}
	found, err := validate(os.Args[1])
	if err != nil {
		fail(2, err)
	}
	if found {
		os.Exit(1)
	}
}

func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(code)
}

// Prints what is wrong, and returns whether it is an error.
func validate(folder string) (bool, error) {
	found := false
	report := func(err error) {
		found = true
		fmt.Println("error:", err)
	}
	if err := checkAnnotations(filepath.Join(folder, "metadata", "annotations.yaml")); err != nil {
		report(err)
	}
	if err := checkFiles(filepath.Join(folder, "manifests")); err != nil {
		report(err)
	}
	bundle, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return found, err
	}
	// As in the Operator SDK: the bundle, its parts, and then its other objects.
	objects := bundle.ObjectsToValidate()
	for _, object := range bundle.Objects {
		objects = append(objects, object)
	}
	validators := append(
		slices.Clone(validation.DefaultBundleValidators),
		validation.OperatorHubV2Validator, validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator, validation.ObjectValidator, validation.AlphaDeprecatedAPIsValidator,
		validation.GoodPracticesValidator,
	)
	for _, result := range validators.Validate(objects...) {
		for _, warning := range result.Warnings {
			fmt.Println("warning:", warning.Error())
		}
		for _, err := range result.Errors {
			report(err)
		}
	}
	return found, nil
}

func checkAnnotations(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var read struct{ Annotations map[string]string }
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, expected := range annotations {
		name = "operators.operatorframework.io.bundle." + name + ".v1"
		if value := read.Annotations[name]; value == "" || expected != "" && value != expected {
			return fmt.Errorf("%s: %s is %q", file, name, value)
		}
	}
	return nil
}

// Checks that each file has one object of a kind that OLM installs.
func checkFiles(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		if strings.Contains("\n"+string(text), "\n---") {
			return fmt.Errorf("%s has several documents, of which OLM reads the first", entry.Name())
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			return fmt.Errorf("%s: %w", entry.Name(), err)
		}
		if !slices.Contains(kinds, object.GetKind()) {
			return fmt.Errorf("%s: OLM installs no %s", entry.Name(), object.GetKind())
		}
		if object.GetNamespace() != "" && object.GetKind() != "ClusterServiceVersion" {
			return fmt.Errorf("%s: OLM chooses the namespace, and it has one", entry.Name())
		}
	}
	return nil
}
