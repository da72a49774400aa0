// Prints the table of gpuruntime/embedded/schemas/builtin_types.txt: how Go reads and writes built-in kinds.
//
//	go mod tidy && go run . > ../../../../gpuruntime/embedded/schemas/builtin_types.txt
package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
)

var roots = []any{
	core.Namespace{}, core.Pod{}, core.Node{}, core.Service{}, core.Event{}, core.ConfigMap{},
	core.Secret{}, core.PersistentVolumeClaim{}, core.PersistentVolume{}, core.ServiceAccount{},
	core.ResourceQuota{}, core.LimitRange{}, core.Endpoints{},
	apps.Deployment{}, apps.ReplicaSet{}, batch.Job{}, networking.NetworkPolicy{},
	coordination.Lease{}, scheduling.PriorityClass{}, storage.StorageClass{},
	policy.PodDisruptionBudget{}, rbac.ClusterRole{}, rbac.ClusterRoleBinding{}, rbac.Role{},
	rbac.RoleBinding{}, resource.DeviceClass{}, resource.ResourceClaim{},
	resource.ResourceClaimTemplate{}, resource.ResourceSlice{},
}

// Types with an encoding of their own, by the names that the table uses for them.
var own = map[string]string{
	"resource.Quantity":    "Quantity",
	"v1.Time":              "Time",
	"v1.MicroTime":         "MicroTime",
	"intstr.IntOrString":   "IntOrString",
	"runtime.RawExtension": "Any",
	"v1.FieldsV1":          "Any",
}

// Types whose names an earlier package has taken, by the names that the table uses for them.
var renamed = map[string]string{
	"k8s.io/api/resource/v1.ResourceClaim": "DeviceResourceClaim",
}

var lines = map[string]string{}
var packages = map[string]string{}

func main() {
	for _, root := range roots {
		name(reflect.TypeOf(root))
	}
	names := []string{}
	for each := range lines {
		names = append(names, each)
	}
	sort.Strings(names)
	for _, each := range names {
		fmt.Printf("%s %s\n", each, lines[each])
	}
}

// Pointers are written *X, lists [X and maps {X.
func name(t reflect.Type) string {
	if known, found := own[t.String()]; found {
		return known
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + name(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[" + name(t.Elem())
	case reflect.Map:
		return "{" + name(t.Elem())
	case reflect.Struct:
		return structure(t)
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "int"
	default:
		return t.Kind().String()
	}
}

func structure(t reflect.Type) string {
	key := t.Name()
	if other, found := renamed[t.PkgPath()+"."+key]; found {
		key = other
	}
	if _, found := lines[key]; found {
		if packages[key] != t.PkgPath() {
			panic("two types are named " + key)
		}
		return key
	}
	packages[key] = t.PkgPath()
	lines[key] = ""
	lines[key] = strings.Join(members(t), " ")
	return key
}

// A member is written name:type. Then follows ? if its empty value is omitted, or ?? if an empty
// structure is omitted too; |key or | if a strategic patch merges it; and ~ if it retains keys.
func members(t reflect.Type) []string {
	found := []string{}
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if len(tag) > 1 && tag[1] == "inline" {
			if field.Name != "TypeMeta" {
				found = append(found, members(field.Type)...)
			}
			continue
		}
		member := tag[0] + ":" + name(field.Type)
		if has(tag, "omitzero") {
			member += "??"
		} else if has(tag, "omitempty") {
			member += "?"
		}
		strategy := strings.Split(field.Tag.Get("patchStrategy"), ",")
		if has(strategy, "merge") {
			member += "|" + field.Tag.Get("patchMergeKey")
		}
		if has(strategy, "retainKeys") {
			member += "~"
		}
		found = append(found, member)
	}
	return found
}

func has(words []string, word string) bool {
	for _, each := range words {
		if each == word {
			return true
		}
	}
	return false
}
