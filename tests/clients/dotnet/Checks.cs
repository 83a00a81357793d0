using System;
using System.Collections.Generic;
using System.Linq;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Cosmos;

/// <summary>Runs checks, prints a line for each, and counts.</summary>
public sealed class Checks
{
    private readonly string only;
    private int passed;
    private int failed;

    public Checks(string only)
    {
        this.only = only;
    }

    public bool Succeeded => this.failed == 0 && this.passed > 0;

    public Task Run(string name, Func<Task> check)
    {
        bool isChosen = this.only == null || name.Contains(this.only);
        return isChosen ? this.RunAlways(name, check) : Task.CompletedTask;
    }

    /// <summary>Runs the checks of a class; if its preparation fails, that counts as a check.</summary>
    public async Task RunGroup(Func<Checks, Task> group)
    {
        try
        {
            await group(this);
        }
        catch (Exception error)
        {
            this.Fail(group.Target.GetType().Name, error);
        }
    }

    public async Task RunAlways(string name, Func<Task> check)
    {
        try
        {
            await check();
            this.passed++;
            Console.WriteLine("ok      " + name);
        }
        catch (Exception error)
        {
            this.Fail(name, error);
        }
    }

    public void Summarize()
    {
        Console.WriteLine($"{this.passed} passed, {this.failed} failed");
    }

    private void Fail(string name, Exception error)
    {
        this.failed++;
        Console.WriteLine("FAILED  " + name + ": " + Where(error) + FirstLines(error));
    }

    private static string FirstLines(Exception error)
    {
        string text = error.GetType().Name + ": " + error.Message;
        return text.Length > 1500 ? text.Substring(0, 1500) : text;
    }

    private static string Where(Exception error)
    {
        string line = (error.StackTrace ?? "").Split('\n').FirstOrDefault(each => each.Contains(".cs:line") && !each.Contains("Checks.cs"));
        return line == null ? "" : line.Substring(line.LastIndexOf('/') + 1).Trim() + ": ";
    }
}

/// <summary>A check that did not hold.</summary>
public sealed class CheckFailed : Exception
{
    public CheckFailed(string message)
        : base(message)
    {
    }
}

/// <summary>What checks expect.</summary>
public static class Expect
{
    public static void True(bool holds, string what)
    {
        if (!holds)
        {
            throw new CheckFailed(what);
        }
    }

    public static void Equal<T>(T expected, T actual, string what = "value")
    {
        if (!EqualityComparer<T>.Default.Equals(expected, actual))
        {
            throw new CheckFailed($"{what}: expected {expected}, got {actual}");
        }
    }

    public static void Same<T>(IEnumerable<T> expected, IEnumerable<T> actual, string what = "values")
    {
        string left = string.Join(", ", expected);
        string right = string.Join(", ", actual);
        if (left != right)
        {
            throw new CheckFailed($"{what}: expected [{left}], got [{right}]");
        }
    }

    public static async Task<CosmosException> Status(HttpStatusCode status, Func<Task> call)
    {
        try
        {
            await call();
        }
        catch (CosmosException error)
        {
            Equal(status, error.StatusCode, "status");
            return error;
        }
        throw new CheckFailed($"expected {(int)status}, but the call succeeded");
    }
}
